// Weights of one byte each beside their scales: compressed-tensors' "float-quantized" and
// "int-quantized", FP8 in blocks (DeepSeek, Qwen3-FP8), FBGEMM's and ModelOpt's FP8.
#pragma once

#include <cstdint>
#include <string_view>

#include "engine/checkpoint/formats/packed_integers.h"
#include "engine/checkpoint/formats/weight_format.h"

namespace beamline {

class ScaledValueFormat final : public WeightFormat {
 public:
  // `scale`: the suffix of the scales, "weight_scale" or "weight_scale_inv", which despite that
  // name multiply too. `dtype`: of the values; absent: that of the scales.
  ScaledValueFormat(std::string_view scale, std::optional<DType> dtype, SchemeOf scheme_of)
      : suffixes_{scale, "weight", "weight_zero_point"},
        dtype_(dtype),
        scheme_of_(std::move(scheme_of)) {}

  std::span<const std::string_view> suffixes() const override { return suffixes_; }
  absl::StatusOr<MatrixShape> Describe(const ModuleTensors& module) const override;
  absl::StatusOr<QuantizedMatrix> Unpack(const ModuleTensors& module) const override;

 private:
  std::string_view scale() const { return suffixes_[0]; }

  const std::array<std::string_view, 3> suffixes_;
  const std::optional<DType> dtype_;
  const SchemeOf scheme_of_;
};

}  // namespace beamline
