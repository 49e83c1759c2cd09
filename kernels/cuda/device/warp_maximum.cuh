// The maximum over a warp's lanes in few instructions.
#pragma once

#include "kernels/cuda/device/scalar.cuh"

namespace beamline::cuda {

// REQUIRES: no x is NaN. Compares the numbers as integers of the same order, in one instruction.
__device__ inline float WarpMaximum(float x) {
  constexpr int kAllButSign = 0x7fffffff;
  const int bits = __float_as_int(x);
  const int greatest = __reduce_max_sync(kFullMask, bits < 0 ? bits ^ kAllButSign : bits);
  return __int_as_float(greatest < 0 ? greatest ^ kAllButSign : greatest);
}

}  // namespace beamline::cuda
