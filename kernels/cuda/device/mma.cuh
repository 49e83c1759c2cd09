// The tensor core's 16 x 8 x 16 product and the copies that feed it: PTX of sm_80 and newer.
#pragma once

#include <cstdint>

#include "kernels/cuda/device/scalar.cuh"

namespace beamline::cuda {

__device__ inline uint32_t SharedAddress(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

// Copies 16 bytes from global to shared memory, asynchronously. Writes zeros if !valid.
__device__ inline void CopyAsync(void* shared, const void* global, bool valid) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(SharedAddress(shared)),
               "l"(global), "r"(valid ? 16 : 0));
}
__device__ inline void CommitCopies() { asm volatile("cp.async.commit_group;\n"); }
// Waits until at most kPending groups of copies are in flight.
template <int kPending>
__device__ inline void WaitForCopies() {
  asm volatile("cp.async.wait_group %0;\n" ::"n"(kPending));
}

// Loads four 8 x 8 matrices from shared memory. Lane i passes the address of row i % 8 of matrix i
// / 8.
__device__ inline void LoadMatrices(const void* row, uint32_t (&to)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(SharedAddress(row)));
}
__device__ inline void LoadMatricesTransposed(const void* row, uint32_t (&to)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];\n"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(SharedAddress(row)));
}

// c += a b with float32 accumulators: a [16, 16], b [16, 8], c [16, 8]. In c a lane holds columns 2
// * (lane % 4) and the next: of row lane / 4 in c[0] and c[1], of row lane / 4 + 8 in c[2] and
// c[3].
template <typename T>
__device__ void MultiplyAdd(const uint32_t (&a)[4], uint32_t b0, uint32_t b1, float (&c)[4]);

template <>
__device__ inline void MultiplyAdd<__half>(const uint32_t (&a)[4], uint32_t b0, uint32_t b1,
                                           float (&c)[4]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

template <>
__device__ inline void MultiplyAdd<__nv_bfloat16>(const uint32_t (&a)[4], uint32_t b0, uint32_t b1,
                                                  float (&c)[4]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Two numbers as one register, the first in the low half.
template <typename T>
__device__ uint32_t PackPair(float low, float high);

template <>
__device__ inline uint32_t PackPair<__half>(float low, float high) {
  const __half2 pair = __floats2half2_rn(low, high);
  return *reinterpret_cast<const uint32_t*>(&pair);
}

template <>
__device__ inline uint32_t PackPair<__nv_bfloat16>(float low, float high) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const uint32_t*>(&pair);
}

// A tile of rows of kColumns 16-bit elements in shared memory. The 16-byte chunks of a row are
// swizzled, so that one column of chunks of eight rows lies in different banks. Rows of whole
// 128-byte lines permute eight chunks. Rows that end halfway through a line permute four:
// neighbouring rows already start four chunks apart.
template <typename T, int kColumns>
struct SwizzledTile {
  static_assert(kColumns % 32 == 0);
  T* data;

  __device__ T* Chunk(int row, int chunk) const {
    const int permutation = kColumns % 64 == 0 ? row & 7 : row >> 1 & 3;
    return data + row * kColumns + (chunk ^ permutation) * 8;
  }
};

}  // namespace beamline::cuda
