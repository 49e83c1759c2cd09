// Records what a run sent as a trace that another run can replay. Thread-safe.
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
  // Checks that a trace can store the lengths of all its requests.
  static absl::Status Check(const Workload& workload);

  // Stores the lengths that the request fixes (a prompt of ids, an answer that ignores its end),
  // else those that the server reported. Requests with neither are left out.
  void Add(const RequestRecord& record);

  // Writes the requests in the order of their times.
  absl::Status Write(const std::string& path);
  int64_t num_left_out() const { return num_left_out_; }

 private:
  std::mutex mutex_;
  Trace trace_;  // `line` is the request's index
  int64_t num_left_out_ = 0;
};

}  // namespace beamline::loadtest
