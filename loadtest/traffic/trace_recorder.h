// Writes what a run sent as a trace, which another run can replay. Thread-safe.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>

#include "absl/status/status.h"
#include "loadtest/report/record.h"
#include "loadtest/workload/trace.h"
#include "loadtest/workload/workload.h"

namespace beamline::loadtest {

class TraceRecorder {
 public:
  // That all of its requests have lengths that a trace can hold.
  static absl::Status Check(const Workload& workload);

  // Lengths are what the request asked for where it decides them (a prompt of ids, an answer that
  // ignores its end), else what the server counted; a request that has neither is left out.
  void Add(const RequestRecord& record);

  // In the order of the requests' times.
  absl::Status Write(const std::string& path);
  int64_t num_left_out() const { return num_left_out_; }

 private:
  std::mutex mutex_;
  Trace trace_;  // with the requests' numbers for lines
  int64_t num_left_out_ = 0;
};

}  // namespace beamline::loadtest
