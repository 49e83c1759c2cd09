// The methods of Python's strings.
#pragma once

#include <string_view>

#include "engine/jinja/value.h"

namespace beamline::jinja {

// Null where there is none.
Native FindTextMethod(std::string_view name);
// One that Python has and this does not.
bool IsOtherTextMethod(std::string_view name);

}  // namespace beamline::jinja
