// Shows a run under way on the terminal.
#pragma once

#include <string>

#include "base/status_line.h"
#include "loadtest/report/recorder.h"
#include "loadtest/traffic/generator.h"

namespace beamline::loadtest {

// Writes a line a second to standard error, over the one before, if that is a terminal; nothing
// otherwise; clears it at the end. The recorder and the generator must outlive it.
class ProgressLine {
 public:
  // `prefix`: what the line begins with.
  ProgressLine(const Recorder& recorder, const Generator& generator, double warmup_s,
               double until_s, std::string prefix = "");

 private:
  RunClock clock_;
  StatusLine line_;
};

}  // namespace beamline::loadtest
