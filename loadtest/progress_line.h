// Shows a run under way on the terminal.
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include "loadtest/report/recorder.h"
#include "loadtest/traffic/generator.h"

namespace beamline::loadtest {

// Writes a line a second to standard error, over the one before, if that is a terminal; nothing
// otherwise. The recorder and the generator must outlive it.
class ProgressLine {
 public:
  // `prefix`: what the line begins with.
  ProgressLine(const Recorder& recorder, const Generator& generator, double warmup_s,
               double until_s, std::string prefix = "");
  // Clears the line.
  ~ProgressLine();

 private:
  void Loop();

  const Recorder& recorder_;
  const Generator& generator_;
  const double warmup_s_;
  const double until_s_;
  const std::string prefix_;
  RunClock clock_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace beamline::loadtest
