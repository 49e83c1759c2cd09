// The weights that stream_tiles.cuh multiplies: how 16 bytes of a row become the tensor cores'
// operand, and what scales the sums.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/cuda/device/mma.cuh"
#include "kernels/cuda/device/scalar.cuh"

namespace beamline::cuda {

// The sums that share a scale. kRows: those of an output feature (or of the tensor, with a step of
// 0). kBlocks: those of kScaleBlock output features and as many input features. kGroups: those of
// an output feature and kScaleBlock input features.
enum class ScaleKind : uint8_t { kNone, kRows, kBlocks, kGroups };
inline constexpr int kScaleBlock = 128;

// A weight in the type of the activations, multiplied as it is.
template <typename T>
struct PlainWeight {
  using Activation = T;
  static constexpr ScaleKind kScale = ScaleKind::kNone;
  static constexpr int kElements = 8;  // in 16 bytes

  __device__ static void Widen(const uint4& packed, uint32_t /*zero*/,
                               uint32_t (&pairs)[kElements / 2]) {
    pairs[0] = packed.x, pairs[1] = packed.y, pairs[2] = packed.z, pairs[3] = packed.w;
  }
};

// Two e4m3 numbers, the low or the `high` half of `bits`, as a pair of T: exact. A packed weight
// has no NaN.
template <typename T>
__device__ uint32_t WidenE4m3(uint32_t bits, bool high);
template <>
__device__ inline uint32_t WidenE4m3<__half>(uint32_t bits, bool high) {
  uint32_t pair;
  asm("{\n.reg .b16 half;\nmov.b32 {half, _}, %1;\ncvt.rn.f16x2.e4m3x2 %0, half;\n}\n"
      : "=r"(pair)
      : "r"(high ? bits >> 16 : bits));
  return pair;
}
// The exponent's bits are copied to bfloat16's exponent, which is then 120 too low. That is also
// true of subnormal numbers. One multiplication corrects both.
template <>
__device__ inline uint32_t WidenE4m3<__nv_bfloat16>(uint32_t bits, bool high) {
  const uint32_t spread = __byte_perm(bits, 0, high ? 0x3424 : 0x1404);
  const uint32_t small = (spread >> 4 & 0x07f007f0) | (spread & 0x80008000);
  uint32_t pair;
  asm("mul.rn.bf16x2 %0, %1, %2;\n" : "=r"(pair) : "r"(small), "r"(0x7b807b80));  // 2^120
  return pair;
}

template <typename T, ScaleKind kScaleKind>
struct E4m3Weight {
  using Activation = T;
  static constexpr ScaleKind kScale = kScaleKind;
  static constexpr int kElements = 16;

  __device__ static void Widen(const uint4& packed, uint32_t /*zero*/,
                               uint32_t (&pairs)[kElements / 2]) {
    const uint32_t words[] = {packed.x, packed.y, packed.z, packed.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      pairs[2 * i] = WidenE4m3<T>(words[i], false);
      pairs[2 * i + 1] = WidenE4m3<T>(words[i], true);
    }
  }
};

// A group's scale and the nibble that is its zero, as stored.
struct alignas(4) GroupScale {
  __half scale;
  uint8_t zero, padding;
};

// Nibbles in the order of Int4Matrix.
template <typename T>
struct Int4Weight {
  using Activation = T;
  static constexpr ScaleKind kScale = ScaleKind::kGroups;
  static constexpr int kElements = 32;

  // Two copies of the number with a nibble of 0 in its last bits: 1024 in float16, 128 in bfloat16.
  // From there on the type has every integer up to 15 more.
  static constexpr uint32_t kBase = std::is_same_v<T, __half> ? 0x64006400 : 0x43004300;

  __device__ static void Widen(const uint4& packed, uint32_t zero,
                               uint32_t (&pairs)[kElements / 2]) {
    const uint32_t words[] = {packed.x, packed.y, packed.z, packed.w};
    const uint32_t zeros = kBase | zero | zero << 16;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        pairs[4 * i + j] = Difference((words[i] >> 4 * j & 0x000f000f) | kBase, zeros);
      }
    }
  }

 private:
  __device__ static uint32_t Difference(uint32_t a, uint32_t b) {
    uint32_t pair;
    if constexpr (std::is_same_v<T, __half>) {
      asm("sub.rn.f16x2 %0, %1, %2;\n" : "=r"(pair) : "r"(a), "r"(b));
    } else {
      asm("sub.rn.bf16x2 %0, %1, %2;\n" : "=r"(pair) : "r"(a), "r"(b));
    }
    return pair;
  }
};

}  // namespace beamline::cuda
