// Jinja's filters: `value|name(arguments)`.
#pragma once

#include <string_view>

#include "engine/jinja/run.h"
#include "engine/jinja/value.h"

namespace beamline::jinja {

// Null where there is none. `self` is the filtered value.
Native FindFilter(std::string_view name);

// Those of sequences, and of all else.
Native FindSequenceFilter(std::string_view name);
Native FindTextFilter(std::string_view name);

}  // namespace beamline::jinja
