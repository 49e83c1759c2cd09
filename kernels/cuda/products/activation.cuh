// Activations in float32: within a few roundings of the exact functions.
#pragma once

#include "kernels/backend.h"
#include "kernels/cuda/device/scalar.cuh"

namespace beamline::cuda {

// erfc(|x| / sqrt(2)) with an absolute error under 1.5e-7 for every x, NaN included: the logarithm
// of erfc is nearly a parabola, so one polynomial and one power of two do what erff needs two
// ranges and twice the instructions for. Its coefficients fit |x| <= 6 with errors weighted by
// erfc; beyond that it keeps falling, until the power is 0.
__device__ inline float TwoSidedTail(float x) {
  const float t = fabsf(x);
  float power = -1.918630232e-06f;
  power = fmaf(power, t, 2.979014243e-05f);
  power = fmaf(power, t, -1.469580166e-04f);
  power = fmaf(power, t, -2.170224470e-04f);
  power = fmaf(power, t, 7.149738725e-03f);
  power = fmaf(power, t, -5.254382640e-02f);
  power = fmaf(power, t, -4.591962993e-01f);
  power = fmaf(power, t, -1.151106119e+00f);
  float tail;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(tail) : "f"(power * t));
  return tail;
}

__device__ inline float Gelu(float x) {
  const float tail = TwoSidedTail(x);
  return 0.5f * x * (x < 0.0f ? tail : 2.0f - tail);
}

template <Activation kActivation>
__device__ float Activate(float x) {
  if constexpr (kActivation == Activation::kRelu) return fmaxf(x, 0.0f);
  if constexpr (kActivation == Activation::kGelu) return Gelu(x);
  if constexpr (kActivation == Activation::kGeluTanh) {
    return 0.5f * x * (1.0f + tanhf(0.79788456080286536f * (x + 0.044715f * x * x * x)));
  }
  if constexpr (kActivation == Activation::kSilu) return x / (1.0f + expf(-x));
  if constexpr (kActivation == Activation::kTanh) return tanhf(x);
  return x;
}

// Activates several numbers: which activation it is, is looked up once.
template <int kSize>
__device__ void ActivateAll(Activation activation, float (&x)[kSize]) {
  const auto apply = [&]<Activation kActivation>() {
#pragma unroll
    for (int i = 0; i < kSize; ++i) x[i] = Activate<kActivation>(x[i]);
  };
  switch (activation) {
    case Activation::kNone:
      return;
    case Activation::kRelu:
      return apply.template operator()<Activation::kRelu>();
    case Activation::kGelu:
      return apply.template operator()<Activation::kGelu>();
    case Activation::kGeluTanh:
      return apply.template operator()<Activation::kGeluTanh>();
    case Activation::kSilu:
      return apply.template operator()<Activation::kSilu>();
    case Activation::kTanh:
      return apply.template operator()<Activation::kTanh>();
  }
}

__device__ inline float Activate(Activation activation, float x) {
  float values[1] = {x};
  ActivateAll(activation, values);
  return values[0];
}

}  // namespace beamline::cuda
