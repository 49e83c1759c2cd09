// Prometheus' text format, as /metrics answers with it.
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

  // Empty for a label that the sample does not have.
  const std::string& Label(const std::string& label) const;
};

// The samples in their order. Lines that are none are passed over, and so are values that are no
// finite number: nothing can be reckoned with these. InvalidArgument when there is no metric of a
// Beamline server.
absl::StatusOr<std::vector<MetricSample>> ParseExposition(std::string_view text);

}  // namespace beamline
