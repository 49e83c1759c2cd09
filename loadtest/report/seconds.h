// The figures of a run, second by second.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "loadtest/report/histogram.h"
#include "loadtest/report/record.h"

namespace beamline::loadtest {

// One latency over the requests that ended in one second; nanoseconds.
struct LatencyPoint {
  int64_t count = 0;
  int64_t p50 = 0;
  int64_t p90 = 0;
  int64_t p99 = 0;
  int64_t max = 0;
};

struct Second {
  int64_t sent = 0;
  int64_t ok = 0;     // succeeded in this second; the latencies below are theirs
  int64_t error = 0;  // failed in this second
  int64_t cut = 0;    // cancelled, stopped, or at a deadline that the workload asks for
  int64_t tokens = 0;
  LatencyPoint time_to_first_token;
  LatencyPoint time_per_output_token;
  LatencyPoint end_to_end;
};

// The progress of a running load test.
struct Progress {
  std::chrono::nanoseconds time{0};  // since the run's start
  int64_t num_ended = 0;
  int64_t num_failed = 0;
  Second last;  // the last whole second
};

class SecondSeries {
 public:
  // Records must arrive roughly in the order of their ends. If one is more than two seconds late,
  // its latencies are added to a later second.
  void Add(const RequestRecord& record);

  // From the run's start to the last second with an event.
  std::vector<Second> All() const;
  // The whole second before `time`.
  Second Before(std::chrono::nanoseconds time) const;

 private:
  // Histograms exist only for the newest seconds, because a day has 86,400.
  struct Latencies {
    Histogram time_to_first_token;
    Histogram time_per_output_token;
    Histogram end_to_end;
  };

  Second& At(std::chrono::nanoseconds time);
  void AddLatencies(const RequestRecord& record);
  static void Summarize(const Latencies& latencies, Second& second);

  std::vector<Second> seconds_;
  std::map<size_t, Latencies> open_;  // by second
  size_t first_open_ = 0;
};

}  // namespace beamline::loadtest
