// Pool: one vector per sequence from its tokens' hidden states.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/pool.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
//
#include <algorithm>
#include <cmath>

#include "kernels/cpu/ops.h"
#include "kernels/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace beamline::cpu::HWY_NAMESPACE {

void AddRow(const float* row, size_t size, float* sum) {
  ForEachVector(size, [&](size_t i, auto load, auto store)
                          HWY_ATTR { store(hn::Add(load(sum + i), load(row + i)), sum + i); });
}

void MaxRow(const float* row, size_t size, float* maximum) {
  ForEachVector(size, [&](size_t i, auto load, auto store) HWY_ATTR {
    const VF x = load(row + i), greatest = load(maximum + i);
    // Max() would drop a NaN, which shows that the model overflowed.
    const auto keep = hn::Or(hn::Gt(greatest, x), hn::IsNaN(greatest));
    store(hn::IfThenElse(keep, greatest, x), maximum + i);
  });
}

void DivideRow(float divisor, size_t size, float* row) {
  const VF divisors = hn::Set(kF32, divisor);
  ForEachVector(size, [&](size_t i, auto load, auto store)
                          HWY_ATTR { store(hn::Div(load(row + i), divisors), row + i); });
}

float SumOfSquares(const float* row, size_t size) {
  VF sum = hn::Zero(kF32);
  ForEachVector(size, [&](size_t i, auto load, auto) HWY_ATTR {
    const VF x = load(row + i);
    sum = hn::MulAdd(x, x, sum);
  });
  return Sum(sum);
}

}  // namespace beamline::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace beamline::cpu {
namespace {

HWY_EXPORT(AddRow);
HWY_EXPORT(MaxRow);
HWY_EXPORT(DivideRow);
HWY_EXPORT(SumOfSquares);

constexpr double kNsPerElement = 0.1;

// Pools rows begin .. end - 1 of hidden (at least one) into output [hidden_size].
void PoolRows(Pooling pooling, const Tensor& hidden, int64_t begin, int64_t end, float* output) {
  const size_t size = hidden.dim(-1);
  const int64_t length = end - begin;
  const int64_t first = pooling == Pooling::kLast ? end - 1 : begin;
  std::copy_n(hidden.row<float>(first), size, output);
  if (pooling == Pooling::kCls || pooling == Pooling::kLast) return;
  for (int64_t i = begin + 1; i < end; ++i) {
    if (pooling == Pooling::kMax) {
      HWY_DYNAMIC_DISPATCH(MaxRow)(hidden.row<float>(i), size, output);
    } else {
      HWY_DYNAMIC_DISPATCH(AddRow)(hidden.row<float>(i), size, output);
    }
  }
  if (pooling == Pooling::kMax) return;
  const float count = static_cast<float>(length);
  const float divisor = pooling == Pooling::kMean ? count : std::sqrt(count);
  HWY_DYNAMIC_DISPATCH(DivideRow)(divisor, size, output);
}

}  // namespace

void Compute(Context& context, const PoolParams& params) {
  const size_t size = params.hidden.dim(-1);
  const double cost_ns = kNsPerElement * params.hidden.num_elements();
  context.Run(params.num_sequences, 1, cost_ns, [&](int64_t begin, int64_t end, Scratch&) {
    for (int64_t s = begin; s < end; ++s) {
      float* output = params.output.row<float>(s);
      const int32_t first = params.offsets[s];
      const int32_t last = params.offsets[s + 1];
      if (first == last) {
        std::fill_n(output, size, 0.0f);
        continue;
      }
      PoolRows(params.pooling, params.hidden, first, last, output);
      if (!params.normalize) continue;
      const float norm = std::sqrt(HWY_DYNAMIC_DISPATCH(SumOfSquares)(output, size));
      if (norm > 0) HWY_DYNAMIC_DISPATCH(DivideRow)(norm, size, output);
    }
  });
}

}  // namespace beamline::cpu
#endif  // HWY_ONCE
