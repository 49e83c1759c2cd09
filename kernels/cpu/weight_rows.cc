#include <cstdint>
#include <vector>

#include "kernels/cpu/cpu_weight.h"
#include "kernels/float16.h"

namespace beamline::cpu {
namespace {

float ElementAt(const HostMatrix& part, int64_t index) {
  switch (part.dtype) {
    case DType::kBFloat16:
      return FromBFloat16(static_cast<const uint16_t*>(part.data)[index]);
    case DType::kFloat16:
      return FromFloat16(static_cast<const uint16_t*>(part.data)[index]);
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
