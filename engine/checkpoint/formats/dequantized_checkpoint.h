// A quantised checkpoint as models read it: each quantised weight under its usual name.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "engine/checkpoint/checkpoint.h"

namespace beamline {

// `stored` itself when it is not quantised. Else checks types and shapes of all quantised weights;
// errors name the key of quantization_config, or the file and the tensor. Scales of activations and
// caches are left out: both are computed in the model's types.
absl::StatusOr<std::unique_ptr<Checkpoint>> Dequantized(std::unique_ptr<Checkpoint> stored);

}  // namespace beamline
