#include "loadtest/progress_line.h"

#include <unistd.h>

#include <chrono>
#include <iostream>
#include <string>

#include "loadtest/report/progress.h"

namespace beamline::loadtest {

ProgressLine::ProgressLine(const Recorder& recorder, const Generator& generator, double warmup_s,
                           double until_s, std::string prefix)
    : line_(std::cerr, isatty(STDERR_FILENO) == 1, std::chrono::seconds(1),
            [=, this, &recorder, &generator](double, size_t) {
              return prefix + FormatProgress(recorder.ProgressAt(clock_.Now()),
                                             generator.num_sent(), warmup_s, until_s);
            }) {}

}  // namespace beamline::loadtest
