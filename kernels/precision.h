// The types of a model's numbers (docs/decisions/0036-precision.md).
#pragma once

#include <optional>
#include <string_view>

#include "absl/status/status.h"
#include "kernels/tensor.h"

namespace beamline {

struct Precision {
  // One type for weights and computation. The cache has the type of the device's activations.
  Precision(DType dtype) : weights(dtype), compute(dtype) {}  // NOLINT: a type is a precision
  Precision(DType weights_type, DType compute_type, std::optional<DType> cache_type)
      : weights(weights_type), compute(compute_type), cache(cache_type) {}

  DType weights;               // matrices in memory
  DType compute;               // inputs of products; sums are float32
  std::optional<DType> cache;  // keys and values in memory; nullopt: as activations

  bool operator==(const Precision&) const = default;
};

// UNIMPLEMENTED with the three types. `accepted`: those that `device` supports, for the message.
absl::Status UnsupportedPrecision(std::string_view device, const Precision& precision,
                                  std::string_view accepted);

}  // namespace beamline
