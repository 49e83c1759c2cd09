#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/matmul_epilogue.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
//
#include "kernels/cpu/matmul_epilogue.h"
#include "kernels/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace beamline::cpu::HWY_NAMESPACE {

template <Activation kActivation>
void EpilogueRow(const EpilogueParams& p, int row) {
  const float* tile = p.tile + row * p.tile_stride;
  const float* up = p.up == nullptr ? nullptr : p.up + row * p.tile_stride;
  const float* residual = p.residual == nullptr ? nullptr : p.residual + row * p.residual_stride;
  float* y = p.y + row * p.y_stride;
  ForEachVector(p.num_cols, [&](size_t i, auto load, auto store) HWY_ATTR {
    VF value = load(tile + i);
    if (p.bias != nullptr) value = hn::Add(value, load(p.bias + i));
    value = Activate<kActivation>(value);
    if (up != nullptr) {
      VF factor = load(up + i);
      if (p.up_bias != nullptr) factor = hn::Add(factor, load(p.up_bias + i));
      value = hn::Mul(value, factor);
    }
    if (p.softcap > 0.0f) {
      const VF cap = hn::Set(kF32, p.softcap);
      value = hn::Mul(Activate<Activation::kTanh>(hn::Div(value, cap)), cap);
    }
    if (residual != nullptr) value = hn::Add(value, load(residual + i));
    store(value, y + i);
  });
}

void Epilogue(const EpilogueParams& p) {
  DispatchActivation(p.activation, [&]<Activation kActivation>() HWY_ATTR {
    for (int r = 0; r < p.num_rows; ++r) EpilogueRow<kActivation>(p, r);
  });
}

}  // namespace beamline::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace beamline::cpu {
namespace {
HWY_EXPORT(Epilogue);
}  // namespace

void ApplyEpilogue(const EpilogueParams& params) { HWY_DYNAMIC_DISPATCH(Epilogue)(params); }

}  // namespace beamline::cpu
#endif  // HWY_ONCE
