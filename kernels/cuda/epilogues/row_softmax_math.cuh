// Code shared by the kernels of RowSoftmax: their arguments, and the partial results of a row.
#pragma once

#include <cstdint>
#include <type_traits>

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
  int64_t rows_ahead = 0;  // distance from a block's row to the row that it prefetches to L2
};

// The partial result of some elements: their maximum, and the sum of exp(x - maximum). A NaN or
// +inf among them makes the sum NaN.
struct SoftmaxPartial {
  float maximum;
  float sum;
};

inline constexpr float kLog2E = 1.4426950408889634f;

__device__ inline float MinusInfinity() { return __int_as_float(0xff800000); }

// The number to subtract from x, instead of the maximum: -inf - -inf would be NaN, but 0 is
// correct.
__device__ inline float SoftmaxBase(float maximum) {
  return maximum == MinusInfinity() ? 0.0f : maximum;
}

__device__ inline float SoftmaxPowerOfTwo(float x) {
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
  return power;
}
// exp(x - base), accurate to two units in the last place; results below 2^-126 are 0.
__device__ inline float SoftmaxPower(float x, float base) {
  return SoftmaxPowerOfTwo((x - base) * kLog2E);
}

__device__ inline SoftmaxPartial WarpMerge(SoftmaxPartial partial) {
  const float maximum = WarpMaximum(partial.maximum);
  return {maximum, WarpSum(partial.sum * SoftmaxPower(partial.maximum, SoftmaxBase(maximum)))};
}

// The unit of a thread's loads and stores: 16 bytes of elements.
using SoftmaxUnit = int4;
inline constexpr int kUnitBytes = 16;
inline constexpr int kLineBytes = 128;  // parts of a row start at multiples of DRAM's lines
inline constexpr int kLineUnits = kLineBytes / kUnitBytes;

// A unit of -infinity.
template <typename T>
__device__ inline SoftmaxUnit EmptyUnit() {
  const int bits = std::is_same_v<T, float>    ? static_cast<int>(0xff800000u)
                   : std::is_same_v<T, __half> ? static_cast<int>(0xfc00fc00u)
                                               : static_cast<int>(0xff80ff80u);
  return {bits, bits, bits, bits};
}

template <typename T>
__device__ inline void Unpack(const SoftmaxUnit& unit, float (&to)[kVecSize<T>]) {
  LoadFloats<kVecSize<T>>(reinterpret_cast<const T*>(&unit), to);
}
template <typename T>
__device__ inline SoftmaxUnit Packed(const float (&from)[kVecSize<T>]) {
  SoftmaxUnit unit;
  StoreFloats<kVecSize<T>>(from, reinterpret_cast<T*>(&unit));
  return unit;
}

// Keeps the compiler from reusing values that it unpacked from the units before this call.
template <int kUnits>
__device__ inline void ForgetUnpacked(SoftmaxUnit (&units)[kUnits]) {
#pragma unroll
  for (SoftmaxUnit& unit : units) {
    asm volatile("" : "+r"(unit.x), "+r"(unit.y), "+r"(unit.z), "+r"(unit.w));
  }
}

// The greatest element of some units. A NaN does not count; -infinity if there is no other element.
template <typename T, int kUnits>
__device__ inline float GreatestOf(const SoftmaxUnit (&units)[kUnits]) {
  float greatest = MinusInfinity();
  if constexpr (sizeof(T) == 4) {
#pragma unroll
    for (const SoftmaxUnit& unit : units) {
      float x[kVecSize<T>];
      Unpack<T>(unit, x);
#pragma unroll
      for (const float element : x) greatest = fmaxf(greatest, element);
    }
    return greatest;
  } else {
    using Pair = std::conditional_t<std::is_same_v<T, __half>, __half2, __nv_bfloat162>;
    using Pairs = Pair[4];
    Pairs pairs;
#pragma unroll
    for (int i = 0; i < 4; ++i) pairs[i] = reinterpret_cast<const Pairs&>(units[0])[i];
#pragma unroll
    for (int u = 1; u < kUnits; ++u) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        pairs[i] = __hmax2(pairs[i], reinterpret_cast<const Pairs&>(units[u])[i]);
      }
    }
    const Pair pair = __hmax2(__hmax2(pairs[0], pairs[1]), __hmax2(pairs[2], pairs[3]));
    return fmaxf(greatest, fmaxf(ToFloat(pair.x), ToFloat(pair.y)));
  }
}

}  // namespace beamline::cuda
