#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "base/math.h"
#include "kernels/cpu/cpu_weight.h"
#include "kernels/float16.h"

namespace beamline::cpu {
namespace {

// Calls row(i, values) for each output feature of a part. `widen` converts an element to float32.
template <typename Stored, typename Widen>
void ForEachRow(const HostMatrix& part, int64_t first_out_feature, Widen widen,
                std::vector<float>& values,
                absl::FunctionRef<void(int64_t out_feature, const float* values)> row) {
  const int64_t out_features = part.transposed ? part.cols : part.rows;
  const int64_t in_features = part.transposed ? part.rows : part.cols;
  const auto* const elements = static_cast<const Stored*>(part.data);
  for (int64_t i = 0; i < out_features; ++i) {
    if (part.transposed) {
      for (int64_t k = 0; k < in_features; ++k) values[k] = widen(elements[i + k * part.cols]);
    } else {
      std::transform(elements + i * part.cols, elements + (i + 1) * part.cols, values.begin(),
                     widen);
    }
    row(first_out_feature + i, values.data());
  }
}

}  // namespace

int ChooseStripPanels(int64_t num_panels, int most, int num_threads) {
  int best = 1;
  int64_t best_time = std::numeric_limits<int64_t>::max();
  for (int panels = most; panels >= 1; --panels) {
    const int64_t strips = CeilDiv(num_panels, panels);
    const int64_t time = CeilDiv(strips, num_threads) * panels;
    if (time < best_time) {
      best_time = time;
      best = panels;
    }
  }
  return best;
}

void ForEachWeightRow(std::span<const HostMatrix> parts,
                      absl::FunctionRef<void(int64_t out_feature, const float* values)> row) {
  std::vector<float> values;
  int64_t out_feature = 0;
  for (const HostMatrix& part : parts) {
    values.resize(static_cast<size_t>(part.transposed ? part.rows : part.cols));
    const auto from_brain = [](uint16_t bits) { return FromBFloat16(bits); };
    const auto from_half = [](uint16_t bits) { return FromFloat16(bits); };
    const auto as_it_is = [](float value) { return value; };
    if (part.dtype == DType::kBFloat16) {
      ForEachRow<uint16_t>(part, out_feature, from_brain, values, row);
    } else if (part.dtype == DType::kFloat16) {
      ForEachRow<uint16_t>(part, out_feature, from_half, values, row);
    } else {
      ForEachRow<float>(part, out_feature, as_it_is, values, row);
    }
    out_feature += part.transposed ? part.cols : part.rows;
  }
}

}  // namespace beamline::cpu
