// The types of a model's numbers, each for itself (docs/decisions/0036-precision.md).
#pragma once

#include <optional>
#include <string_view>

#include "absl/status/status.h"
#include "kernels/tensor.h"

namespace beamline {

struct Precision {
  // One type for all; the cache has the one of the device's activations.
  Precision(DType dtype) : weights(dtype), compute(dtype) {}  // NOLINT: a type is a precision
  Precision(DType weights_type, DType compute_type, std::optional<DType> cache_type)
      : weights(weights_type), compute(compute_type), cache(cache_type) {}

  DType weights;               // matrices, as they lie in memory: a weight format
  DType compute;               // what products multiply; sums are float32
  std::optional<DType> cache;  // keys and values, as they lie in memory; nullopt: as activations

  bool operator==(const Precision&) const = default;
};

// UNIMPLEMENTED with the three types and those that `device` computes with, a list for the message.
absl::Status UnsupportedPrecision(std::string_view device, const Precision& precision,
                                  std::string_view accepted);

}  // namespace beamline
