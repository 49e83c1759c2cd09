// The ways in which checkpoints store quantised matrices, one class each.
#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/checkpoint/formats/module_tensors.h"
#include "engine/checkpoint/formats/quantized_matrix.h"
#include "nlohmann/json_fwd.hpp"

namespace beamline {

// What a module's weight is once it is dequantised: [out, in] in `dtype`.
struct MatrixShape {
  int64_t out = 0, in = 0;
  DType dtype = DType::kFloat32;
};

class WeightFormat {
 public:
  virtual ~WeightFormat() = default;

  // Names of a module's tensors that the format reads, behind "MODULE.": "qweight", "scales". The
  // first one tells which modules are stored so.
  virtual std::span<const std::string_view> suffixes() const = 0;
  // Checks types and shapes of all tensors; reads no values but those that say a shape. Errors name
  // the file and the tensor.
  virtual absl::StatusOr<MatrixShape> Describe(const ModuleTensors& module) const = 0;
  // The whole matrix. Errors name the tensor whose values are out of range: scales that are not
  // finite, zero points and groups beyond their range. REQUIRES: Describe succeeded.
  virtual absl::StatusOr<QuantizedMatrix> Unpack(const ModuleTensors& module) const = 0;
};

}  // namespace beamline
