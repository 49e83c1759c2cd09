// Jinja's tests: `value is name(argument)`.
#pragma once

#include <string_view>

#include "engine/jinja/run.h"
#include "engine/jinja/value.h"

namespace beamline::jinja {

using Test = bool (*)(Run& run, const Value& self, const Args& args);

// Null if there is none.
Test FindTest(std::string_view name);

}  // namespace beamline::jinja
