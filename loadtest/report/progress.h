// The line that a terminal shows of a run under way.
#pragma once

#include <cstdint>
#include <string>

#include "loadtest/report/seconds.h"

namespace beamline::loadtest {

// Without an end of line. `until_s`: the duration of the run, warm-up included.
std::string FormatProgress(const Progress& progress, uint64_t num_sent, double warmup_s,
                           double until_s);

}  // namespace beamline::loadtest
