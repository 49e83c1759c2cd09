// What the server said of itself during a run.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace beamline::loadtest {

// One scrape of /metrics; sums over the server's models.
struct ServerSample {
  double time_s = 0;  // since the run's start
  double waiting = 0;
  double running = 0;
  // Since the sample before: sequences a step in the mean, absent when there was no step; and
  // generated tokens a second.
  std::optional<double> step_sequences;
  std::optional<double> tokens_per_s;
};

struct ServerSeries {
  std::string url;
  std::vector<ServerSample> samples;
  int64_t num_failed = 0;    // scrapes
  std::string last_failure;  // why the last of them did
};

}  // namespace beamline::loadtest
