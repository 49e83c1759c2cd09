// Floats as unsigned integers with the same order, for selection.
#pragma once

#include <cstdint>

#include "kernels/cuda/device/scalar.cuh"

namespace beamline::cuda {

// NaN counts as -infinity, and -0 as 0.
__device__ inline uint32_t OrderedKey(float x) {
  if (isnan(x)) x = -INFINITY;
  const uint32_t bits = __float_as_uint(x + 0.0f);
  return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}

__device__ inline float FromOrderedKey(uint32_t key) {
  return __uint_as_float((key & 0x80000000u) != 0 ? key & 0x7fffffffu : ~key);
}

// A candidate as one number. A higher value is greater; of equal values the lower id is. 0: none.
__device__ inline uint64_t CandidateKey(float value, int32_t id) {
  return uint64_t{OrderedKey(value)} << 32 | ~static_cast<uint32_t>(id);
}
__device__ inline float ValueOf(uint64_t candidate) {
  return FromOrderedKey(static_cast<uint32_t>(candidate >> 32));
}
__device__ inline int32_t IdOf(uint64_t candidate) {
  return static_cast<int32_t>(~static_cast<uint32_t>(candidate));
}

__device__ inline uint64_t WarpMax(uint64_t x) {
#pragma unroll
  for (int offset = kWarpSize / 2; offset > 0; offset /= 2) {
    const uint64_t other = __shfl_xor_sync(kFullMask, x, offset);
    x = other > x ? other : x;
  }
  return x;
}

__device__ inline uint64_t WarpSum(uint64_t x) {
#pragma unroll
  for (int offset = kWarpSize / 2; offset > 0; offset /= 2) {
    x += __shfl_xor_sync(kFullMask, x, offset);
  }
  return x;
}

// Sorts kCount candidates in shared memory, best first. Called by the whole block. Ends with a
// barrier.
template <int kCount>
__device__ inline void BitonicSort(uint64_t* candidates) {
  for (int width = 2; width <= kCount; width *= 2) {
    for (int stride = width / 2; stride > 0; stride /= 2) {
      __syncthreads();
      for (int i = threadIdx.x; i < kCount / 2; i += blockDim.x) {
        const int low = 2 * i - (i & (stride - 1));
        const int high = low + stride;
        const bool descending = (low & width) == 0;
        const uint64_t a = candidates[low], b = candidates[high];
        if ((a < b) == descending) {
          candidates[low] = b;
          candidates[high] = a;
        }
      }
    }
  }
  __syncthreads();
}

}  // namespace beamline::cuda
