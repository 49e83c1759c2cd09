// Activations in float32, within a few roundings of the exact functions.
#pragma once

#include <cfloat>

#include "kernels/backend.h"
#include "kernels/cuda/device/scalar.cuh"

namespace beamline::cuda {

// GELU by erfc(|x| / sqrt(2)), within 1.5e-7 of the exact function for every x; NaN stays NaN. The
// logarithm of erfc is nearly a parabola. So one polynomial and one power of two replace the two
// ranges of erff, which takes twice the instructions. The coefficients fit |x| <= 6 with errors
// weighted by erfc. Beyond that the polynomial keeps falling, until the power is 0. For negative x
// nothing is subtracted, so the tail keeps its relative accuracy. Each step computes several
// numbers, so that none waits for the one before it.
template <int kSize>
__device__ void GeluAll(float (&x)[kSize]) {
  constexpr float kPowers[] = {-1.918630232e-06f, 2.979014243e-05f,  -1.469580166e-04f,
                               -2.170224470e-04f, 7.149738725e-03f,  -5.254382640e-02f,
                               -4.591962993e-01f, -1.151106119e+00f, /* half of erfc */ -1.0f};
  constexpr int kTogether = kSize < 8 ? kSize : 8;
  static_assert(kSize % kTogether == 0);
#pragma unroll
  for (int i = 0; i < kSize; i += kTogether) {
    float power[kTogether];
#pragma unroll
    for (int j = 0; j < kTogether; ++j) power[j] = kPowers[0];
#pragma unroll
    for (int c = 1; c < static_cast<int>(sizeof(kPowers) / sizeof(float)); ++c) {
#pragma unroll
      for (int j = 0; j < kTogether; ++j) power[j] = fmaf(power[j], fabsf(x[i + j]), kPowers[c]);
    }
#pragma unroll
    for (int j = 0; j < kTogether; ++j) {
      float half_tail;
      asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(half_tail) : "f"(power[j]));
      // infinity * 0 would be NaN.
      const float magnitude = fminf(fabsf(x[i + j]), FLT_MAX);
      x[i + j] = fmaf(-magnitude, half_tail, fmaxf(x[i + j], 0.0f));
    }
  }
}

template <Activation kActivation>
__device__ float Activate(float x) {
  if constexpr (kActivation == Activation::kRelu) return x < 0.0f ? 0.0f : x;  // NaN stays
  if constexpr (kActivation == Activation::kGelu) {
    float values[1] = {x};
    GeluAll(values);
    return values[0];
  }
  if constexpr (kActivation == Activation::kGeluTanh) {
    return 0.5f * x * (1.0f + tanhf(0.79788456080286536f * (x + 0.044715f * x * x * x)));
  }
  if constexpr (kActivation == Activation::kSilu) return x / (1.0f + expf(-x));
  if constexpr (kActivation == Activation::kTanh) return tanhf(x);
  return x;
}

// Activates several numbers with one dispatch on the activation.
template <int kSize>
__device__ void ActivateAll(Activation activation, float (&x)[kSize]) {
  const auto apply = [&]<Activation kActivation>() {
    if constexpr (kActivation == Activation::kGelu) {
      GeluAll(x);
    } else {
#pragma unroll
      for (int i = 0; i < kSize; ++i) x[i] = Activate<kActivation>(x[i]);
    }
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
