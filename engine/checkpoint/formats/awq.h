// AWQ, version "gemm": "qweight" and "qzeros" of 4 bits packed along the outputs in AWQ's order of
// nibbles, one scale a group and output. Facts: AutoAWQ 0.2.9, utils/packing_utils.py.
#pragma once

#include <cstdint>

#include "engine/checkpoint/formats/weight_format.h"

namespace beamline {

class AwqFormat final : public WeightFormat {
 public:
  // -1: all inputs.
  explicit AwqFormat(int64_t group_size) : group_size_(group_size) {}

  std::span<const std::string_view> suffixes() const override;
  absl::StatusOr<MatrixShape> Describe(const ModuleTensors& module) const override;
  absl::StatusOr<QuantizedMatrix> Unpack(const ModuleTensors& module) const override;

 private:
  const int64_t group_size_;
};

}  // namespace beamline
