// Formats the progress line of a run.
#pragma once

#include <cstdint>
#include <string>

#include "loadtest/report/seconds.h"

namespace beamline::loadtest {

// Without a line end. `until_s`: the duration of the run, including warm-up.
std::string FormatProgress(const Progress& progress, uint64_t num_sent, double warmup_s,
                           double until_s);

}  // namespace beamline::loadtest
