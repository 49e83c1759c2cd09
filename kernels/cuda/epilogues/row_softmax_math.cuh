// What the kernels of RowSoftmax share: their arguments, and what is known of parts of a row.
#pragma once

#include <cstdint>

#include "kernels/cuda/device/scalar.cuh"
#include "kernels/cuda/device/warp_maximum.cuh"

namespace beamline::cuda {

template <typename T>
struct SoftmaxArgs {
  const T* x;
  T* y;
  int64_t x_stride, y_stride;
  int64_t num_rows;
  int64_t width;
};

// What is known of some elements: their maximum, and the sum of exp(x - maximum). A NaN or +inf
// among them makes the sum NaN.
struct SoftmaxPartial {
  float maximum;
  float sum;
};

inline constexpr float kLog2E = 1.4426950408889634f;

__device__ inline float MinusInfinity() { return __int_as_float(0xff800000); }

// What is subtracted from x in place of the maximum: -inf - -inf would be NaN where a 0 belongs.
__device__ inline float SoftmaxBase(float maximum) {
  return maximum == MinusInfinity() ? 0.0f : maximum;
}

// exp(x - base), to two units in the last place; results below 2^-126 are 0.
__device__ inline float SoftmaxPower(float x, float base) {
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"((x - base) * kLog2E));
  return power;
}

__device__ inline SoftmaxPartial WarpMerge(SoftmaxPartial partial) {
  const float maximum = WarpMaximum(partial.maximum);
  return {maximum, WarpSum(partial.sum * SoftmaxPower(partial.maximum, SoftmaxBase(maximum)))};
}

}  // namespace beamline::cuda
