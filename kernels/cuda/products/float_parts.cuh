// Code shared by the kernels for float32 products of one to four rows. A thread has four columns of
// all rows. Sums go over a warp's lanes so that each lane ends with some of them.
#pragma once

#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/products/norm_on_load.cuh"

namespace beamline::cuda {

inline constexpr int kFloatChunk = kVecSize<float>;  // columns of a thread
inline constexpr int kWarpColumns = kWarpSize * kFloatChunk;

// Loads zeros unless `valid`.
__device__ inline void LoadChunkIf(bool valid, const float* from, float (&to)[kFloatChunk]) {
  const float4 chunk = valid ? *reinterpret_cast<const float4*>(from) : float4{};
  to[0] = chunk.x, to[1] = chunk.y, to[2] = chunk.z, to[3] = chunk.w;
}

// sum + weight . x, over a thread's columns.
__device__ inline float Dot(const uint4& weight, const float (&x)[kFloatChunk], float sum) {
  sum += __uint_as_float(weight.x) * x[0];
  sum += __uint_as_float(weight.y) * x[1];
  sum += __uint_as_float(weight.z) * x[2];
  sum += __uint_as_float(weight.w) * x[3];
  return sum;
}

// Adds each of kCount values over the lanes of a warp. A lane keeps SumsLeft(kCount) of the sums at
// the start of `values`: those from the returned index on. Lanes that differ only in the bits of
// SumsRepeat(kCount) keep the same sums.
template <int kCount, int kLanes = kWarpSize>
__device__ __forceinline__ int SumOverWarp(float* values, int lane) {
  if constexpr (kLanes == 1) {
    return 0;
  } else {
    constexpr int kOther = kLanes / 2;
    if constexpr (kCount % 2 == 0) {
      constexpr int kHalf = kCount / 2;
      const bool upper = (lane & kOther) != 0;
#pragma unroll
      for (int i = 0; i < kHalf; ++i) {
        const float given = upper ? values[i] : values[kHalf + i];
        const float kept = upper ? values[kHalf + i] : values[i];
        values[i] = kept + __shfl_xor_sync(kFullMask, given, kOther);
      }
      return (upper ? kHalf : 0) + SumOverWarp<kHalf, kOther>(values, lane);
    } else {
#pragma unroll
      for (int i = 0; i < kCount; ++i) values[i] += __shfl_xor_sync(kFullMask, values[i], kOther);
      return SumOverWarp<kCount, kOther>(values, lane);
    }
  }
}
constexpr int SumsLeft(int count) {
  for (int lanes = kWarpSize; lanes > 1 && count % 2 == 0; lanes /= 2) count /= 2;
  return count;
}
// The bits of a lane's number that do not change which sums it keeps.
constexpr int SumsRepeat(int count) {
  int lanes = kWarpSize;
  for (; lanes > 1 && count % 2 == 0; lanes /= 2) count /= 2;
  return lanes - 1;
}

// The mean of some numbers and the sum of squared distances from it.
struct Spread {
  float mean, squares;

  // Adds the spread of as many other numbers. half_size: half of that number.
  __device__ void Add(const Spread& other, float half_size) {
    const float apart = other.mean - mean;
    mean = 0.5f * (mean + other.mean);
    squares = squares + other.squares + apart * apart * half_size;
  }
  __device__ Spread OfLane(int other_lanes) const {
    return {__shfl_xor_sync(kFullMask, mean, other_lanes),
            __shfl_xor_sync(kFullMask, squares, other_lanes)};
  }
};

// The spread of a thread's numbers. Around 0 unless centred.
__device__ inline Spread SpreadOf(const float (&values)[kFloatChunk], bool centred) {
  static_assert(kFloatChunk == 4);
  Spread spread = {};
  if (centred) spread.mean = 0.25f * ((values[0] + values[1]) + (values[2] + values[3]));
#pragma unroll
  for (float value : values) spread.squares += (value - spread.mean) * (value - spread.mean);
  return spread;
}

// The spreads of the rows of a block with kGroups groups of kGroupWarps warps. Each group has all
// columns, and computes the spreads of its share of the rows.
template <int kRows, int kGroups, int kGroupWarps>
struct SharedSpreads {
  static constexpr int kSharers = kRows < kGroups ? kRows : kGroups;
  static constexpr int kShare = kRows / kSharers;
  static_assert(kRows % kSharers == 0 && kWarpSize % kRows == 0);

  Spread of_warps[kRows][kGroupWarps];

  // Stores the spreads over the columns of a warp, all of which exist.
  __device__ void Store(int group, int group_warp, bool centred,
                        const float (&x)[kRows][kFloatChunk]) {
    const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
    Spread share[kShare];
#pragma unroll
    for (int s = 0; s < kShare; ++s) {
      float values[kFloatChunk];
#pragma unroll
      for (int j = 0; j < kFloatChunk; ++j) {
        values[j] = x[s][j];
#pragma unroll
        for (int g = 1; g < kSharers; ++g) {
          if (g == group) values[j] = x[g * kShare + s][j];
        }
      }
      share[s] = SpreadOf(values, centred);
    }
    float half_size = 0.5f * kFloatChunk;
    int row = group * kShare;
    int lanes = kWarpSize / 2;
#pragma unroll
    for (int half = kShare / 2; half > 0; half /= 2) {
      const bool upper = (lane & lanes) != 0;
#pragma unroll
      for (int s = 0; s < half; ++s) {
        const Spread given = upper ? share[s] : share[half + s];
        if (upper) share[s] = share[half + s];
        share[s].Add(given.OfLane(lanes), half_size);
      }
      row += upper ? half : 0;
      lanes /= 2;
      half_size *= 2.0f;
    }
#pragma unroll
    for (int repeats = kWarpSize / kShare / 2; repeats > 0; repeats /= 2) {
      share[0].Add(share[0].OfLane(repeats), half_size);
      half_size *= 2.0f;
    }
    if (lane % (kWarpSize / kShare) == 0 && group < kSharers) of_warps[row][group_warp] = share[0];
  }

  // The spread of a row of `columns` columns. inverse_size: 1 / columns.
  __device__ Spread Row(int row, int columns, float inverse_size) const {
    Spread of_warp[kGroupWarps];
    Spread spread = {};
#pragma unroll
    for (int w = 0; w < kGroupWarps; ++w) {
      of_warp[w] = w * kWarpColumns < columns ? of_warps[row][w] : Spread{};
      spread.mean += of_warp[w].mean;
    }
    spread.mean *= inverse_size * kWarpColumns;
#pragma unroll
    for (int w = 0; w < kGroupWarps; ++w) {
      const float apart = w * kWarpColumns < columns ? of_warp[w].mean - spread.mean : 0.0f;
      spread.squares += of_warp[w].squares + apart * apart * kWarpColumns;
    }
    return spread;
  }
};

// Normalises the rows of such a block. The columns are whole warps' columns. A kernel calls it
// once.
template <int kGroups, int kGroupWarps, int kRows>
__device__ void NormRows(const NormOnLoad<float>& by, int group, int group_warp, const uint4& gain,
                         const uint4& bias, float (&x)[kRows][kFloatChunk]) {
  __shared__ SharedSpreads<kRows, kGroups, kGroupWarps> spreads;
  spreads.Store(group, group_warp, by.norm.centred, x);
  __syncthreads();
  // Lane r completes row r, and so do the lanes at multiples of kRows further on.
  const int own = static_cast<int>(threadIdx.x) % kRows;
  const Spread spread = spreads.Row(own, by.norm.hidden_size, by.inverse_size);
  const float scale = rsqrtf(spread.squares * by.inverse_size + by.norm.epsilon);
  float gains[kFloatChunk], biases[kFloatChunk];
  LoadFloats<kFloatChunk>(reinterpret_cast<const float*>(&gain), gains);
  LoadFloats<kFloatChunk>(reinterpret_cast<const float*>(&bias), biases);
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const float row_mean = __shfl_sync(kFullMask, spread.mean, r);
    const float row_scale = __shfl_sync(kFullMask, scale, r);
#pragma unroll
    for (int j = 0; j < kFloatChunk; ++j) {
      x[r][j] = __fadd_rn(__fmul_rn((x[r][j] - row_mean) * row_scale, gains[j]), biases[j]);
    }
  }
}

}  // namespace beamline::cuda
