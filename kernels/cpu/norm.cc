// LayerNorm and RMSNorm with the residual addition fused.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/norm.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
//
#include <cmath>

#include "kernels/cpu/norm.h"
#include "kernels/cpu/ops.h"
#include "kernels/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace beamline::cpu::HWY_NAMESPACE {

// Computes the mean, then the variance around it: as accurate as float32 allows.
void NormRow(const NormRowParams& p) {
  const size_t size = p.hidden_size;
  VF sums = hn::Zero(kF32);
  ForEachVector(size, [&](size_t i, auto load, auto store) HWY_ATTR {
    VF x = load(p.x + i);
    if (p.residual != nullptr) x = hn::Add(x, load(p.residual + i));
    store(x, p.sum + i);
    sums = hn::Add(sums, x);
  });
  const float count = static_cast<float>(size);
  const float mean = p.kind == NormKind::kLayerNorm ? Sum(sums) / count : 0.0f;
  const VF means = hn::Set(kF32, mean);
  // Lanes beyond the row must not count, as they would hold -mean.
  VF squares = hn::Zero(kF32);
  const size_t lanes = NumLanes();
  size_t i = 0;
  for (; i + lanes <= size; i += lanes) {
    const VF centred = hn::Sub(hn::LoadU(kF32, p.sum + i), means);
    squares = hn::MulAdd(centred, centred, squares);
  }
  if (i < size) {
    const VF centred = hn::IfThenElseZero(hn::FirstN(kF32, size - i),
                                          hn::Sub(LoadFirst(p.sum + i, size - i), means));
    squares = hn::MulAdd(centred, centred, squares);
  }
  const VF scales = hn::Set(kF32, 1.0f / std::sqrt(Sum(squares) / count + p.epsilon));
  ForEachVector(size, [&](size_t j, auto load, auto store) HWY_ATTR {
    VF y = hn::Mul(hn::Sub(load(p.sum + j), means), scales);
    y = hn::Mul(y, load(p.gain + j));
    if (p.bias != nullptr) y = hn::Add(y, load(p.bias + j));
    if (p.addend != nullptr) y = hn::Add(y, load(p.addend + j));
    store(y, p.y + j);
  });
}

}  // namespace beamline::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace beamline::cpu {
namespace {

HWY_EXPORT(NormRow);

constexpr double kNsPerElement = 0.15;

}  // namespace

void NormalizeRow(const NormRowParams& params) { HWY_DYNAMIC_DISPATCH(NormRow)(params); }

void Compute(Context& context, const NormParams& params) {
  const int64_t num_rows = params.x.num_rows();
  const int64_t hidden_size = params.x.dim(-1);
  const bool keep_sum = !params.sum.empty();
  const double cost_ns = num_rows * (20.0 + hidden_size * kNsPerElement);
  context.Run(num_rows, 16, cost_ns, [&](int64_t begin, int64_t end, Scratch& scratch) {
    scratch.Reset(Scratch::BytesFor<float>(hidden_size));
    float* sum = scratch.Take<float>(hidden_size);
    for (int64_t i = begin; i < end; ++i) {
      NormalizeRow({.kind = params.kind,
                    .x = params.x.row<float>(i),
                    .residual = params.residual.empty() ? nullptr : params.residual.row<float>(i),
                    .gain = params.gain.as<float>(),
                    .bias = params.bias.as<float>(),
                    .epsilon = params.epsilon,
                    .hidden_size = static_cast<size_t>(hidden_size),
                    .sum = keep_sum ? params.sum.row<float>(i) : sum,
                    .addend = params.addend.empty() ? nullptr : params.addend.row<float>(i),
                    .y = params.y.row<float>(i)});
    }
  });
}

}  // namespace beamline::cpu
#endif  // HWY_ONCE
