#include <bit>
#include <cstdint>
#include <vector>

#include "kernels/cpu/cpu_weight.h"

namespace beamline::cpu {
namespace {

float HalfToFloat(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
  const uint32_t exponent = (bits >> 10) & 0x1fu;
  const uint32_t mantissa = bits & 0x3ffu;
  if (exponent == 0) {  // zero and subnormal: mantissa * 2^-24
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return sign != 0 ? -magnitude : magnitude;
  }
  const uint32_t wide_exponent = exponent == 31 ? 255 : exponent + 112;
  return std::bit_cast<float>(sign | (wide_exponent << 23) | (mantissa << 13));
}

float ElementAt(const HostMatrix& part, int64_t index) {
  switch (part.dtype) {
    case DType::kBFloat16:
      return std::bit_cast<float>(
          static_cast<uint32_t>(static_cast<const uint16_t*>(part.data)[index]) << 16);
    case DType::kFloat16:
      return HalfToFloat(static_cast<const uint16_t*>(part.data)[index]);
    default:
      return static_cast<const float*>(part.data)[index];
  }
}

}  // namespace

void ForEachWeightRow(std::span<const HostMatrix> parts,
                      absl::FunctionRef<void(int64_t out_feature, const float* values)> row) {
  std::vector<float> values;
  int64_t out_feature = 0;
  for (const HostMatrix& part : parts) {
    const int64_t out_features = part.transposed ? part.cols : part.rows;
    const int64_t in_features = part.transposed ? part.rows : part.cols;
    const int64_t out_stride = part.transposed ? 1 : part.cols;
    const int64_t in_stride = part.transposed ? part.cols : 1;
    values.resize(in_features);
    for (int64_t i = 0; i < out_features; ++i) {
      for (int64_t k = 0; k < in_features; ++k) {
        values[k] = ElementAt(part, i * out_stride + k * in_stride);
      }
      row(out_feature++, values.data());
    }
  }
}

}  // namespace beamline::cpu
