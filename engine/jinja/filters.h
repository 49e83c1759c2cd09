// Jinja's filters: `value|name(arguments)`.
#pragma once

#include <string_view>

#include "engine/jinja/run.h"
#include "engine/jinja/value.h"

namespace beamline::jinja {

// Null if there is none. The filter's `self` is the filtered value.
Native FindFilter(std::string_view name);

// The filters of sequences, and all others.
Native FindSequenceFilter(std::string_view name);
Native FindTextFilter(std::string_view name);

}  // namespace beamline::jinja
