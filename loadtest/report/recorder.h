// Collects the records of a run. Thread-safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <fstream>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "loadtest/report/record.h"
#include "loadtest/report/report.h"
#include "loadtest/report/seconds.h"

namespace beamline::loadtest {

struct ClassName {
  std::string name;
  std::string kind;
};

class Recorder {
 public:
  // Requests intended before `warmup` are only counted. `until`: the end of the sending period.
  Recorder(const std::vector<ClassName>& classes, Slo slo, std::chrono::nanoseconds warmup,
           std::chrono::nanoseconds until = std::chrono::nanoseconds::max());

  // Also writes every record to this file, as a line of JSON.
  absl::Status OpenLog(const std::string& path);
  // Call it after the last record. Returns an error if the file is incomplete.
  absl::Status CloseLog();

  void Record(const RequestRecord& record);
  RunSummary Summarize() const;
  // The progress of a run: all records, including warm-up, and the last whole second before `now`.
  Progress ProgressAt(std::chrono::nanoseconds now) const;

 private:
  void RecordError(const RequestRecord& record);
  void Log(const RequestRecord& record);

  const Slo slo_;
  const std::chrono::nanoseconds warmup_;
  const std::chrono::nanoseconds until_;
  mutable std::mutex mutex_;
  RunSummary summary_;  // without total, times and seconds
  SecondSeries seconds_;
  int64_t num_recorded_ = 0;  // includes warm-up, as num_failed_ does
  int64_t num_failed_ = 0;
  std::chrono::nanoseconds first_sent_ = std::chrono::nanoseconds::max();
  std::chrono::nanoseconds last_sent_{0};
  std::chrono::nanoseconds last_end_{0};
  std::ofstream log_;
  std::string log_path_;
};

}  // namespace beamline::loadtest
