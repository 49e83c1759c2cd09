// compressed-tensors' quantization_config: which scheme a module's weight has.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "engine/checkpoint/formats/packed_integers.h"
#include "nlohmann/json_fwd.hpp"

namespace beamline {

class CompressedTensorsConfig {
 public:
  // Errors name the key: "config.json: quantization_config.config_groups.group_0.weights.num_bits
  // is 16; accepted: ...".
  static absl::StatusOr<std::shared_ptr<const CompressedTensorsConfig>> Parse(
      const nlohmann::json& config);

  virtual ~CompressedTensorsConfig() = default;

  // The scheme of a module that is stored quantised. Targets are tried in compressed-tensors'
  // order: names, then "re:" patterns, then "Linear" or "Embedding". INVALID_ARGUMENT when no
  // group has the module.
  virtual absl::StatusOr<WeightScheme> SchemeOf(const std::string& module) const = 0;
};

}  // namespace beamline
