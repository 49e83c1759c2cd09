// Shows the progress of a run on the terminal.
#pragma once

#include <string>

#include "base/status_line.h"
#include "loadtest/report/recorder.h"
#include "loadtest/traffic/generator.h"

namespace beamline::loadtest {

// Redraws one line per second on standard error if that is a terminal, else writes nothing. Clears
// the line at the end. The recorder and the generator must outlive this object.
class ProgressLine {
 public:
  // `prefix`: the start of the line.
  ProgressLine(const Recorder& recorder, const Generator& generator, double warmup_s,
               double until_s, std::string prefix = "");

 private:
  RunClock clock_;
  StatusLine line_;
};

}  // namespace beamline::loadtest
