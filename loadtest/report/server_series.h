// The server's metrics during a run.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace beamline::loadtest {

// One scrape of /metrics, summed over the server's models.
struct ServerSample {
  double time_s = 0;  // since the run's start
  double waiting = 0;
  double running = 0;
  // Since the last sample: mean sequences per step, absent if there was no step; and generated
  // tokens per second.
  std::optional<double> step_sequences;
  std::optional<double> tokens_per_s;
};

struct ServerSeries {
  std::string url;
  std::vector<ServerSample> samples;
  int64_t num_failed = 0;    // failed scrapes
  std::string last_failure;  // error of the last failed scrape
};

}  // namespace beamline::loadtest
