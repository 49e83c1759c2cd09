// GPTQ: "qweight" packed along the inputs, one scale and zero point a group and output, "g_idx"
// with the group of each input. Facts: GPTQModel 7.7, nn_modules/qlinear, utils/model.py.
#pragma once

#include <cstdint>

#include "engine/checkpoint/formats/weight_format.h"

namespace beamline {

struct GptqConfig {
  int bits = 4;             // 2, 3, 4 or 8, of modules without g_idx
  int64_t group_size = -1;  // of the same; -1: all inputs
  // checkpoint_format "gptq", in which packed zero points are stored less 1 a field; "gptq_v2"
  // stores them as they are.
  bool is_v1 = true;
};

class GptqFormat final : public WeightFormat {
 public:
  explicit GptqFormat(const GptqConfig& config) : config_(config) {}

  std::span<const std::string_view> suffixes() const override;
  absl::StatusOr<MatrixShape> Describe(const ModuleTensors& module) const override;
  absl::StatusOr<QuantizedMatrix> Unpack(const ModuleTensors& module) const override;

 private:
  struct Layout {
    int bits = 0;
    int64_t in = 0, out = 0, num_groups = 0;
    DType dtype = DType::kFloat16;
  };
  absl::StatusOr<Layout> LayoutOf(const ModuleTensors& module) const;

  const GptqConfig config_;
};

}  // namespace beamline
