// The methods of Python's strings.
#pragma once

#include <string_view>

#include "engine/jinja/value.h"

namespace beamline::jinja {

// Null if there is none.
Native FindTextMethod(std::string_view name);
// Whether Python has this method but Beamline does not.
bool IsOtherTextMethod(std::string_view name);

}  // namespace beamline::jinja
