// Vector helpers and elementary functions over float32, for files compiled once per target
// (hwy/foreach_target.h). Accuracy is tested against float64 in
// tests/kernels/cpu/simd_math_test.cc.
#if defined(BEAMLINE_KERNELS_CPU_SIMD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BEAMLINE_KERNELS_CPU_SIMD_INL_H_
#undef BEAMLINE_KERNELS_CPU_SIMD_INL_H_
#else
#define BEAMLINE_KERNELS_CPU_SIMD_INL_H_
#endif

#include <cstddef>
#include <cstring>

#include "hwy/highway.h"
#include "kernels/backend.h"

HWY_BEFORE_NAMESPACE();
namespace beamline::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using F32 = hn::ScalableTag<float>;
using VF = hn::Vec<F32>;
inline constexpr F32 kF32;

HWY_INLINE size_t NumLanes() { return hn::Lanes(kF32); }

// Loads the first `count` lanes; the others are zero. Reads nothing beyond them.
HWY_INLINE VF LoadFirst(const float* from, size_t count) {
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
  return hn::MaskedLoad(hn::FirstN(kF32, count), kF32, from);
#else
  HWY_ALIGN float lanes[hn::MaxLanes(F32())] = {};
  std::memcpy(lanes, from, count * sizeof(float));
  return hn::Load(kF32, lanes);
#endif
}

// Stores the first `count` lanes. Writes nothing beyond them.
HWY_INLINE void StoreFirst(VF value, float* to, size_t count) {
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
  hn::BlendedStore(value, hn::FirstN(kF32, count), kF32, to);
#else
  HWY_ALIGN float lanes[hn::MaxLanes(F32())];
  hn::Store(value, kF32, lanes);
  std::memcpy(to, lanes, count * sizeof(float));
#endif
}

// Calls body(i, load, store) for each vector of [0, size). load(p) and store(v, p) move whole
// vectors; in the last call, only the lanes that exist.
template <typename Body>
HWY_INLINE void ForEachVector(size_t size, Body body) {
  const size_t lanes = NumLanes();
  size_t i = 0;
  for (; i + lanes <= size; i += lanes) {
    body(
        i, [](const float* from) HWY_ATTR { return hn::LoadU(kF32, from); },
        [](VF value, float* to) HWY_ATTR { hn::StoreU(value, kF32, to); });
  }
  if (i < size) {
    const size_t rest = size - i;
    body(
        i, [rest](const float* from) HWY_ATTR { return LoadFirst(from, rest); },
        [rest](VF value, float* to) HWY_ATTR { StoreFirst(value, to, rest); });
  }
}

HWY_INLINE float Sum(VF v) { return hn::GetLane(hn::SumOfLanes(kF32, v)); }
HWY_INLINE float Max(VF v) { return hn::GetLane(hn::MaxOfLanes(kF32, v)); }

// Cody-Waite reduction and the polynomial of Cephes' expf: e^x = 2^n * p, p between 0.7 and 1.5.
struct ExpParts {
  hn::Vec<hn::RebindToSigned<F32>> n;
  VF p;
};
HWY_INLINE ExpParts SplitExp(VF x) {
  const VF n = hn::Round(hn::Mul(x, hn::Set(kF32, 1.44269504088896341f)));
  VF r = hn::NegMulAdd(n, hn::Set(kF32, 0.693359375f), x);
  r = hn::NegMulAdd(n, hn::Set(kF32, -2.12194440e-4f), r);
  VF p = hn::Set(kF32, 1.9875691500e-4f);
  p = hn::MulAdd(p, r, hn::Set(kF32, 1.3981999507e-3f));
  p = hn::MulAdd(p, r, hn::Set(kF32, 8.3334519073e-3f));
  p = hn::MulAdd(p, r, hn::Set(kF32, 4.1665795894e-2f));
  p = hn::MulAdd(p, r, hn::Set(kF32, 1.6666665459e-1f));
  p = hn::MulAdd(p, r, hn::Set(kF32, 5.0000001201e-1f));
  p = hn::Add(hn::MulAdd(p, hn::Mul(r, r), r), hn::Set(kF32, 1.0f));
  return {hn::ConvertTo(hn::RebindToSigned<F32>(), n), p};
}

// e^x within 2 ulp. Underflows to 0, overflows to infinity, keeps NaN.
HWY_INLINE VF Exp(VF x) {
  // Beyond these the result is 0 or infinity. A possible NaN must be the second operand, which x86
  // returns.
  x = hn::Min(hn::Set(kF32, 100.0f), x);
  x = hn::Max(hn::Set(kF32, -110.0f), x);
  const ExpParts parts = SplitExp(x);
  // 2^n as two factors, so that neither leaves the exponent's range.
  const hn::RebindToSigned<F32> i32;
  const auto half = hn::ShiftRight<1>(parts.n);
  const auto rest = hn::Sub(parts.n, half);
  const auto bias = hn::Set(i32, 127);
  const VF scale1 = hn::BitCast(kF32, hn::ShiftLeft<23>(hn::Add(half, bias)));
  const VF scale2 = hn::BitCast(kF32, hn::ShiftLeft<23>(hn::Add(rest, bias)));
  return hn::Mul(hn::Mul(parts.p, scale1), scale2);
}

// Exp for x <= 0, for softmax: results below the smallest normal number become 0.
HWY_INLINE VF ExpNonPositive(VF x) {
  const VF lowest = hn::Set(kF32, -87.0f);
  const auto underflows = hn::Lt(x, lowest);
  const ExpParts parts = SplitExp(hn::Max(lowest, x));
  const hn::RebindToSigned<F32> i32;
  const VF y = hn::BitCast(kF32, hn::Add(hn::BitCast(i32, parts.p), hn::ShiftLeft<23>(parts.n)));
  return hn::IfThenElse(underflows, hn::Zero(kF32), y);
}

// tanh(x) within 3 ulp: a polynomial near 0 (Cephes' tanhf), else 1 - 2 / (e^2x + 1).
HWY_INLINE VF Tanh(VF x) {
  const VF one = hn::Set(kF32, 1.0f);
  const VF magnitude = hn::Abs(x);
  const VF e = Exp(hn::Add(magnitude, magnitude));
  const VF large = hn::Sub(one, hn::Div(hn::Set(kF32, 2.0f), hn::Add(e, one)));
  const VF s = hn::Mul(x, x);
  VF p = hn::Set(kF32, -5.70498872745e-3f);
  p = hn::MulAdd(p, s, hn::Set(kF32, 2.06390887954e-2f));
  p = hn::MulAdd(p, s, hn::Set(kF32, -5.37397155531e-2f));
  p = hn::MulAdd(p, s, hn::Set(kF32, 1.33314422036e-1f));
  p = hn::MulAdd(p, s, hn::Set(kF32, -3.33332819422e-1f));
  const VF small = hn::MulAdd(hn::Mul(p, s), x, x);
  // The order of operands matters: Exp() drops a NaN on some targets.
  return hn::IfThenElse(hn::Ge(magnitude, hn::Set(kF32, 0.625f)), hn::CopySign(large, x), small);
}

// erf(x) within 2 ulp. Source: N. Juffa, "a fast and accurate single-precision erf",
// https://stackoverflow.com/questions/35148198.
HWY_INLINE VF Erf(VF x) {
  const VF t = hn::Abs(x);
  const VF s = hn::Mul(x, x);
  VF r = hn::MulAdd(hn::Set(kF32, -1.72853470e-5f), t, hn::Set(kF32, 3.83197126e-4f));
  const VF u = hn::MulAdd(hn::Set(kF32, -3.88396438e-3f), t, hn::Set(kF32, 2.42546219e-2f));
  r = hn::MulAdd(r, s, u);
  r = hn::MulAdd(r, t, hn::Set(kF32, -1.06777877e-1f));
  r = hn::MulAdd(r, t, hn::Set(kF32, -6.34846687e-1f));
  r = hn::MulAdd(r, t, hn::Set(kF32, -1.28717512e-1f));
  r = hn::NegMulAdd(hn::Set(kF32, 1.0f), t, hn::Mul(r, t));
  const VF large = hn::CopySign(hn::Sub(hn::Set(kF32, 1.0f), Exp(r)), x);
  VF p = hn::Set(kF32, -5.96761703e-4f);
  p = hn::MulAdd(p, s, hn::Set(kF32, 4.99119423e-3f));
  p = hn::MulAdd(p, s, hn::Set(kF32, -2.67681349e-2f));
  p = hn::MulAdd(p, s, hn::Set(kF32, 1.12819925e-1f));
  p = hn::MulAdd(p, s, hn::Set(kF32, -3.76125336e-1f));
  p = hn::MulAdd(p, s, hn::Set(kF32, 1.28379166e-1f));
  const VF small = hn::MulAdd(p, x, x);
  return hn::IfThenElse(hn::Gt(t, hn::Set(kF32, 0.927734375f)), large, small);
}

template <Activation kActivation>
HWY_INLINE VF Activate(VF x) {
  const VF one = hn::Set(kF32, 1.0f);
  if constexpr (kActivation == Activation::kRelu) {
    return hn::IfThenZeroElse(hn::Lt(x, hn::Zero(kF32)), x);  // Max() drops a NaN on some targets
  } else if constexpr (kActivation == Activation::kGelu) {
    const VF half_x = hn::Mul(x, hn::Set(kF32, 0.5f));
    return hn::Mul(half_x, hn::Add(one, Erf(hn::Mul(x, hn::Set(kF32, 0.70710678118654752f)))));
  } else if constexpr (kActivation == Activation::kGeluTanh) {
    const VF cubic = hn::Mul(hn::Mul(hn::Mul(x, x), x), hn::Set(kF32, 0.044715f));
    const VF inner = hn::Mul(hn::Add(x, cubic), hn::Set(kF32, 0.79788456080286536f));
    return hn::Mul(hn::Mul(x, hn::Set(kF32, 0.5f)), hn::Add(one, Tanh(inner)));
  } else if constexpr (kActivation == Activation::kSilu) {
    return hn::Div(x, hn::Add(one, Exp(hn::Neg(x))));
  } else if constexpr (kActivation == Activation::kTanh) {
    return Tanh(x);
  } else {
    return x;
  }
}

// Calls body.operator()<kActivation>() with the given activation.
template <typename Body>
HWY_INLINE void DispatchActivation(Activation activation, Body body) {
  switch (activation) {
    case Activation::kNone:
      return body.template operator()<Activation::kNone>();
    case Activation::kRelu:
      return body.template operator()<Activation::kRelu>();
    case Activation::kGelu:
      return body.template operator()<Activation::kGelu>();
    case Activation::kGeluTanh:
      return body.template operator()<Activation::kGeluTanh>();
    case Activation::kSilu:
      return body.template operator()<Activation::kSilu>();
    case Activation::kTanh:
      return body.template operator()<Activation::kTanh>();
  }
}

}  // namespace beamline::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // BEAMLINE_KERNELS_CPU_SIMD_INL_H_
