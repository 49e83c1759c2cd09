// Shared device code of the kernels: element types, 16-byte accesses, reductions.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "base/check.h"
#include "base/math.h"
#include "kernels/tensor.h"

namespace beamline::cuda {

inline constexpr int kWarpSize = 32;
inline constexpr unsigned kFullMask = 0xffffffffu;

__device__ inline float ToFloat(float x) { return x; }
__device__ inline float ToFloat(__half x) { return __half2float(x); }
__device__ inline float ToFloat(__nv_bfloat16 x) { return __bfloat162float(x); }

template <typename T>
__device__ T FromFloat(float x);
template <>
__device__ inline float FromFloat<float>(float x) {
  return x;
}
template <>
__device__ inline __half FromFloat<__half>(float x) {
  return __float2half_rn(x);
}
template <>
__device__ inline __nv_bfloat16 FromFloat<__nv_bfloat16>(float x) {
  return __float2bfloat16_rn(x);
}

// The number of the 16-bit type T with these bits.
template <typename T>
__device__ T FromBits(uint16_t bits);
template <>
__device__ inline __half FromBits<__half>(uint16_t bits) {
  return __ushort_as_half(bits);
}
template <>
__device__ inline __nv_bfloat16 FromBits<__nv_bfloat16>(uint16_t bits) {
  return __ushort_as_bfloat16(bits);
}

// kSize consecutive elements, loaded or stored by one access.
template <typename T, int kSize>
struct alignas(sizeof(T) * kSize) Vec {
  T values[kSize];
};

// Elements of a 16-byte access.
template <typename T>
inline constexpr int kVecSize = 16 / static_cast<int>(sizeof(T));

template <int kSize, typename T>
__device__ inline void LoadFloats(const T* from, float (&to)[kSize]) {
  const auto vec = *reinterpret_cast<const Vec<T, kSize>*>(from);
#pragma unroll
  for (int i = 0; i < kSize; ++i) to[i] = ToFloat(vec.values[i]);
}

template <int kSize, typename T>
__device__ inline void StoreFloats(const float (&from)[kSize], T* to) {
  Vec<T, kSize> vec;
#pragma unroll
  for (int i = 0; i < kSize; ++i) vec.values[i] = FromFloat<T>(from[i]);
  *reinterpret_cast<Vec<T, kSize>*>(to) = vec;
}

__device__ inline float WarpSum(float x) {
#pragma unroll
  for (int offset = kWarpSize / 2; offset > 0; offset /= 2) {
    x += __shfl_xor_sync(kFullMask, x, offset);
  }
  return x;
}

__device__ inline float WarpMax(float x) {
#pragma unroll
  for (int offset = kWarpSize / 2; offset > 0; offset /= 2) {
    x = fmaxf(x, __shfl_xor_sync(kFullMask, x, offset));
  }
  return x;
}

// The sum over a block of whole warps, in every thread. Each call needs its own `partials`, or a
// barrier between two calls.
__device__ inline float BlockSum(float x, float (&partials)[kWarpSize]) {
  x = WarpSum(x);
  const unsigned lane = threadIdx.x % kWarpSize;
  if (lane == 0) partials[threadIdx.x / kWarpSize] = x;
  __syncthreads();
  return WarpSum(lane < blockDim.x / kWarpSize ? partials[lane] : 0.0f);
}

// Calls body.operator()<T>() for the element type.
template <typename Body>
void DispatchFloat(DType dtype, Body body) {
  switch (dtype) {
    case DType::kFloat32:
      return body.template operator()<float>();
    case DType::kFloat16:
      return body.template operator()<__half>();
    case DType::kBFloat16:
      return body.template operator()<__nv_bfloat16>();
    default:
      BEAMLINE_CHECK(false && "the CUDA kernels compute in float32, float16 and bfloat16");
  }
}

// Whether every row of a tensor may be accessed 16 bytes at a time. An empty tensor may.
inline bool IsVectorizable(const Tensor& tensor) {
  if (tensor.empty()) return true;
  const auto bytes = static_cast<int64_t>(SizeOf(tensor.dtype));
  return reinterpret_cast<uintptr_t>(tensor.data) % 16 == 0 &&
         tensor.row_stride * bytes % 16 == 0 && tensor.dim(-1) * bytes % 16 == 0;
}

// Threads of a block that loops over a row of `num_items`: whole warps, at most `most`.
inline int ThreadsFor(int64_t num_items, int most) {
  const int64_t threads = RoundUp(num_items, kWarpSize);
  return static_cast<int>(threads < kWarpSize ? kWarpSize : threads < most ? threads : most);
}

}  // namespace beamline::cuda
