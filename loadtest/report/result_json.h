// Result files: a run's report as JSON (schema "beamline.loadtest/1", docs/loadtest.md).
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "loadtest/report/report.h"
#include "nlohmann/json.hpp"

namespace beamline::loadtest {

nlohmann::json ToJson(const RunReport& report);
// Parts that other documents also use.
nlohmann::json HistogramToJson(const Histogram& histogram);
nlohmann::json EnvironmentToJson(const Environment& environment);
nlohmann::json LoadToJson(const LoadDescription& load);

absl::Status WriteResult(const RunReport& report, const std::string& path);

// The part of a result file that comparisons use.
struct Result {
  std::string label;
  std::string date;
  std::string arrivals;
  double asked_rate = 0;  // 0: closed loop
  double achieved_rate = 0;
  double requests_per_s = 0;
  double output_tokens_per_s = 0;
  double good_per_s = 0;
  bool has_slo = false;
  int64_t num_requests = 0;
  int64_t num_errors = 0;
  Histogram time_to_first_token;
  Histogram inter_token;
  Histogram time_per_output_token;
  Histogram end_to_end;

  double ErrorShare() const;  // share of the requests; 0 if there are none
};

// INVALID_ARGUMENT if the file is not a result file.
absl::StatusOr<Result> ReadResult(const std::string& path);

}  // namespace beamline::loadtest
