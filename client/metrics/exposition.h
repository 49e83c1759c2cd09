// Parses Prometheus' text format, as returned by /metrics.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace beamline {

struct MetricSample {
  std::string name;
  std::map<std::string, std::string> labels;
  double value = 0;

  // Empty if the sample does not have the label.
  const std::string& Label(const std::string& label) const;
};

// The samples in their order. Other lines, and values that are not finite numbers, are skipped.
// INVALID_ARGUMENT if there is no metric of a Beamline server.
absl::StatusOr<std::vector<MetricSample>> ParseExposition(std::string_view text);

}  // namespace beamline
