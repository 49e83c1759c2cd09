// Code shared by the kernels for products of one to four normalised rows. A tensor core product
// takes eight rows. Fewer rows fill them with parts of their columns. So every lane has something
// to normalise, and a block has few warps.
#pragma once

#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/device/mma.cuh"
#include "kernels/cuda/products/norm_on_load.cuh"

namespace beamline::cuda {

inline constexpr int kTileRows = 8;                       // of x^T in a tensor core product
inline constexpr int kTileFeatures = kPartsTileFeatures;  // of the weight
inline constexpr int kTileDepth = 32;  // columns multiplied by a lane's 16 bytes of weight and of x
inline constexpr int kTileChunk = 8;   // elements in 16 bytes

// How a block of kWarps warps divides kRows rows: the columns of a row are cut into kParts parts
// for each warp. In the tensor cores' tile, part p of row r is row p * kRows + r.
template <int kRowsOfBlock, int kWarpsOfBlock>
struct RowParts {
  static constexpr int kRows = kRowsOfBlock;
  static constexpr int kWarps = kWarpsOfBlock;
  static constexpr int kParts = kTileRows / kRows;
  static constexpr int kSums =
      kRows == 1 ? 1 : 4;  // lanes that divide the addition of a row's sums
  static_assert(kWarps % kSums == 0);

  int warp = static_cast<int>(threadIdx.x) / kWarpSize;
  int quad_lane = static_cast<int>(threadIdx.x) % 4;
  int group = static_cast<int>(threadIdx.x) % kWarpSize / 4;
  int row = group % kRows;
  int part = group / kRows;

  __device__ int Column(int of_part) const {
    return (warp * kParts + of_part) * kTileDepth + quad_lane * kTileChunk;
  }

  // The sum of a row over the block, in every lane that has a part of it. Every call needs its own
  // `sums_of_warps`.
  __device__ float SumRow(float sum, float (&sums_of_warps)[kRows][kWarps]) const {
    sum += __shfl_xor_sync(kFullMask, sum, 1);
    sum += __shfl_xor_sync(kFullMask, sum, 2);
#pragma unroll
    for (int lanes = 4 * kRows; lanes < kWarpSize; lanes *= 2) {
      sum += __shfl_xor_sync(kFullMask, sum, lanes);
    }
    if (quad_lane == 0 && part == 0) sums_of_warps[row][warp] = sum;
    __syncthreads();
    constexpr int kOfLane = kWarps / kSums;
    const int first = kSums == 1 ? 0 : quad_lane * kOfLane;
    sum = 0.0f;
#pragma unroll
    for (int i = 0; i < kOfLane; ++i) sum += sums_of_warps[row][first + i];
    if constexpr (kSums == 4) {
      sum += __shfl_xor_sync(kFullMask, sum, 1);
      sum += __shfl_xor_sync(kFullMask, sum, 2);
    }
    return sum;
  }
};

template <typename T>
__device__ void Unpack(const uint4& from, float (&to)[kTileChunk]) {
  LoadFloats<kTileChunk>(reinterpret_cast<const T*>(&from), to);
}

// Normalises a lane's columns of its row. It computes the mean first, then the variance around it.
// The code is short on purpose: it runs once, and fetching it takes as long as running it.
template <typename Parts, typename T>
__device__ uint4 NormChunk(const Parts& parts, const NormOnLoad<T>& by, bool inside,
                           const uint4& gain, const uint4& bias, const uint4& x) {
  __shared__ float sums[2][Parts::kRows][Parts::kWarps];
  float values[kTileChunk], gains[kTileChunk], biases[kTileChunk];
  Unpack<T>(x, values);
  float mean = 0.0f;
  if (by.norm.centred) {
    float sum = 0.0f;
#pragma unroll
    for (float value : values) sum += value;
    mean = parts.SumRow(sum, sums[0]) * by.inverse_size;
  }
  float square = 0.0f;
#pragma unroll
  for (float& value : values) {
    value -= mean;
    square += value * value;
  }
  const float variance = parts.SumRow(inside ? square : 0.0f, sums[1]) * by.inverse_size;
  const float scale = 1.0f / sqrtf(variance + by.norm.epsilon);
  Unpack<T>(gain, gains);
  Unpack<T>(bias, biases);
#pragma unroll
  for (int j = 0; j < kTileChunk; ++j) {
    values[j] = __fadd_rn(__fmul_rn(values[j] * scale, gains[j]), biases[j]);
  }
  uint4 normed;
  StoreFloats<kTileChunk>(values, reinterpret_cast<T*>(&normed));
  return normed;
}

// A lane's parts of the 16 rows of a weight's tile, all loaded at once: `low` of its row among the
// first eight, `high` of its row among the last eight.
template <int kParts>
struct WeightTile {
  uint4 low[kParts], high[kParts];

  template <typename Parts, typename T>
  __device__ void Load(const Parts& parts, const T* low_row, const T* high_row, int in_features) {
#pragma unroll
    for (int p = 0; p < kParts; ++p) {
      const int column = parts.Column(p);
      low[p] = high[p] = {};
      LoadWeightIf(column < in_features, low_row + column, low[p]);
      LoadWeightIf(column < in_features, high_row + column, high[p]);
    }
  }

  // The lane's four sums of the tile, in the layout of MultiplyAdd, over its warp's columns.
  template <typename T>
  __device__ void Multiply(int part, const uint4& x, float (&sums)[4]) const {
    constexpr int kChains = kParts > 2 ? 4 : 2;  // of independent additions
    float chains[kChains][4] = {};
#pragma unroll
    for (int p = 0; p < kParts; ++p) {
      // The other rows of the tile are other parts of the columns.
      const uint4 b = part == p ? x : uint4{0, 0, 0, 0};
      const uint32_t first[4] = {low[p].x, high[p].x, low[p].y, high[p].y};
      const uint32_t second[4] = {low[p].z, high[p].z, low[p].w, high[p].w};
      MultiplyAdd<T>(first, b.x, b.y, chains[2 * p % kChains]);
      MultiplyAdd<T>(second, b.z, b.w, chains[(2 * p + 1) % kChains]);
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      sums[i] = chains[0][i];
#pragma unroll
      for (int c = 1; c < kChains; ++c) sums[i] += chains[c][i];
    }
  }
};

// Stores the warp's sums of a tile. Adds the sums of a row's parts.
template <typename Parts>
__device__ void StoreTile(const Parts& parts, const float (&sums)[4],
                          float (&to)[Parts::kRows][kTileFeatures]) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float* const of_row = to[0] + parts.group + half * 8;
    float even = sums[2 * half], odd = sums[2 * half + 1];
    if constexpr (Parts::kRows == 1) {
      float sum = even + odd;
      sum += __shfl_xor_sync(kFullMask, sum, 1);
      sum += __shfl_xor_sync(kFullMask, sum, 2);
      if (parts.quad_lane == 0) *of_row = sum;
    } else {
      static_assert(Parts::kRows == 4);
      even += __shfl_xor_sync(kFullMask, even, 2);
      odd += __shfl_xor_sync(kFullMask, odd, 2);
      if (parts.quad_lane < 2) {
        of_row[2 * parts.quad_lane * kTileFeatures] = even;
        of_row[(2 * parts.quad_lane + 1) * kTileFeatures] = odd;
      }
    }
  }
}

}  // namespace beamline::cuda
