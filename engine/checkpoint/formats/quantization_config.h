// Which weight formats a checkpoint's config.json asks for.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/checkpoint/formats/weight_format.h"

namespace beamline {

struct WeightFormats {
  std::string method;  // quant_method; empty: the checkpoint is not quantised
  std::vector<std::unique_ptr<WeightFormat>>
      formats;  // the first that has a module's tensors reads it
};

// By quantization_config, or by quantize_config.json or hf_quant_config.json where config.json has
// none. UNIMPLEMENTED naming a key whose value is not read.
absl::StatusOr<WeightFormats> WeightFormatsOf(const Checkpoint& stored);

}  // namespace beamline
