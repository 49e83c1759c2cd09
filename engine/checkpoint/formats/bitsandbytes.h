// bitsandbytes: 4-bit codes of a table ("nf4", "fp4") with one scale for consecutive values of the
// flattened matrix, and int8 with one scale a row. Facts: bitsandbytes 0.50, functional.py and
// backends/default/ops.py.
#pragma once

#include "engine/checkpoint/formats/weight_format.h"

namespace beamline {

// `load_in_4bit`. Shape, type and block sizes come from the module's quant_state, a JSON text.
class Bnb4BitFormat final : public WeightFormat {
 public:
  std::span<const std::string_view> suffixes() const override;
  absl::StatusOr<MatrixShape> Describe(const ModuleTensors& module) const override;
  absl::StatusOr<QuantizedMatrix> Unpack(const ModuleTensors& module) const override;
};

// `load_in_8bit`. Values come in `dtype`.
class Bnb8BitFormat final : public WeightFormat {
 public:
  explicit Bnb8BitFormat(DType dtype) : dtype_(dtype) {}

  std::span<const std::string_view> suffixes() const override;
  absl::StatusOr<MatrixShape> Describe(const ModuleTensors& module) const override;
  absl::StatusOr<QuantizedMatrix> Unpack(const ModuleTensors& module) const override;

 private:
  const DType dtype_;
};

}  // namespace beamline
