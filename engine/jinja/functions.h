// The global functions of templates: range, namespace, raise_exception, ...
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "engine/jinja/run.h"
#include "engine/jinja/value.h"

namespace beamline::jinja {

// Null if there is none.
Native FindFunction(std::string_view name);

// The members of a cycler.
bool StatefulAttribute(Run& run, const Value& value, std::string_view name, Value* found);

// The result of strftime for this time, in the server's time zone.
std::string FormatTime(Run& run, const std::string& format, int64_t now);

}  // namespace beamline::jinja
