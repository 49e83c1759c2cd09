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
  // Of requests intended before `warmup` only the number is kept. `until`: when the run's sending
  // ends.
  Recorder(const std::vector<ClassName>& classes, Slo slo, std::chrono::nanoseconds warmup,
           std::chrono::nanoseconds until = std::chrono::nanoseconds::max());

  // Also writes every record as a line of JSON to this file.
  absl::Status OpenLog(const std::string& path);
  // After the last record: an error when the file does not hold all of them.
  absl::Status CloseLog();

  void Record(const RequestRecord& record);
  RunSummary Summarize() const;
  // What a run under way shows: all that was recorded, warm-up included, and the second before the
  // one that runs at `now`.
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
  int64_t num_recorded_ = 0;  // warm-up included, as the next
  int64_t num_failed_ = 0;
  std::chrono::nanoseconds first_sent_ = std::chrono::nanoseconds::max();
  std::chrono::nanoseconds last_sent_{0};
  std::chrono::nanoseconds last_end_{0};
  std::ofstream log_;
  std::string log_path_;
};

}  // namespace beamline::loadtest
