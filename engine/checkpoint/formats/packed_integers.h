// compressed-tensors' "pack-quantized": "weight_packed" of 1 to 8 bits packed along the inputs, a
// scale a row or group. Facts: compressed-tensors 0.20, compressors/pack_quantized.
#pragma once

#include <cstdint>
#include <functional>

#include "engine/checkpoint/formats/weight_format.h"

namespace beamline {

// How compressed-tensors quantised a module's weight (QuantizationArgs).
struct WeightScheme {
  enum class Strategy : uint8_t { kTensor, kChannel, kGroup, kBlock };
  int bits = 8;
  bool is_float = false;  // e4m3
  bool is_symmetric = true;
  Strategy strategy = Strategy::kChannel;
  int64_t group_size = 0;                  // of kGroup
  int64_t block_rows = 0, block_cols = 0;  // of kBlock
};

// The scheme of a module by its name; errors name the key of quantization_config.
using SchemeOf = std::function<absl::StatusOr<WeightScheme>(const std::string& module)>;

class PackedIntegerFormat final : public WeightFormat {
 public:
  explicit PackedIntegerFormat(SchemeOf scheme_of) : scheme_of_(std::move(scheme_of)) {}

  std::span<const std::string_view> suffixes() const override;
  absl::StatusOr<MatrixShape> Describe(const ModuleTensors& module) const override;
  absl::StatusOr<QuantizedMatrix> Unpack(const ModuleTensors& module) const override;

 private:
  const SchemeOf scheme_of_;
};

}  // namespace beamline
