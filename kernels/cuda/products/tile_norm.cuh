// The norm of rows that the warps of a block hold as operands of the tensor cores.
#pragma once

#include "kernels/cuda/products/norm_on_load.cuh"

namespace beamline::cuda {

// A lane holds eight consecutive columns of row lane / 4 of each tile of eight rows. The lanes of
// one row, of all warps of a block, hold the whole row.
inline constexpr int kTileColumns = 8;
static_assert(kMostNormedColumns == kNormingWarps * 4 * kTileColumns);

__device__ inline float QuadSum(float x) {
  x += __shfl_xor_sync(kFullMask, x, 1);
  return x + __shfl_xor_sync(kFullMask, x, 2);
}

// Sums every row over the warps of a block. Within a warp four lanes have parts of a row. Every
// call needs its own `parts`.
template <int kRowTiles>
__device__ void SumRows(float (&parts)[kRowTiles * 8][kNormingWarps], float (&sums)[kRowTiles]) {
  static_assert(kNormingWarps == 16);  // four lanes read four each
  const int warp = static_cast<int>(threadIdx.x) / kWarpSize;
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
#pragma unroll
  for (int r = 0; r < kRowTiles; ++r) {
    const float sum = QuadSum(sums[r]);
    if (lane % 4 == 0) parts[r * 8 + lane / 4][warp] = sum;
  }
  __syncthreads();
#pragma unroll
  for (int r = 0; r < kRowTiles; ++r) {
    const float4 four = *reinterpret_cast<const float4*>(&parts[r * 8 + lane / 4][lane % 4 * 4]);
    sums[r] = QuadSum(four.x + four.y + four.z + four.w);
  }
}

template <typename T>
__device__ void Unpack(const uint4& from, float (&to)[kTileColumns]) {
  LoadFloats<kTileColumns>(reinterpret_cast<const T*>(&from), to);
}

// x = norm(x), which the first block also writes to by.normed. A lane's columns start at `column`;
// if that is past the row, x is 0. The mean is computed first, then the variance around it. The
// code is short on purpose: it runs once, and fetching it takes as long as running it.
template <int kRowTiles, typename T>
__device__ void NormTile(const NormOnLoad<T>& by, int column, int num_rows, const uint4& gain,
                         const uint4& bias, uint4 (&x)[kRowTiles]) {
  __shared__ __align__(16) float parts[2][kRowTiles * 8][kNormingWarps];
  const RowNorm<T>& norm = by.norm;
  const bool inside = column < norm.hidden_size;
  float means[kRowTiles] = {}, scales[kRowTiles] = {}, values[kTileColumns];
  if (norm.centred) {
#pragma unroll
    for (int r = 0; r < kRowTiles; ++r) {
      Unpack<T>(x[r], values);
#pragma unroll
      for (float value : values) means[r] += value;
    }
    SumRows<kRowTiles>(parts[0], means);
  }
#pragma unroll
  for (int r = 0; r < kRowTiles; ++r) {
    means[r] *= by.inverse_size;
    if (!inside) continue;
    Unpack<T>(x[r], values);
#pragma unroll
    for (float value : values) scales[r] += (value - means[r]) * (value - means[r]);
  }
  SumRows<kRowTiles>(parts[1], scales);
  if (!inside) return;
  float gains[kTileColumns], biases[kTileColumns];
  Unpack<T>(gain, gains);
  Unpack<T>(bias, biases);
#pragma unroll
  for (int r = 0; r < kRowTiles; ++r) {
    const float scale = rsqrtf(scales[r] * by.inverse_size + norm.epsilon);
    Unpack<T>(x[r], values);
#pragma unroll
    for (int j = 0; j < kTileColumns; ++j) {
      values[j] = (values[j] - means[r]) * scale * gains[j] + biases[j];
    }
    StoreFloats<kTileColumns>(values, reinterpret_cast<T*>(&x[r]));
    const int row = r * 8 + static_cast<int>(threadIdx.x) % kWarpSize / 4;
    if (blockIdx.x == 0 && row < num_rows) {
      *reinterpret_cast<uint4*>(by.normed + row * by.normed_stride + column) = x[r];
    }
  }
}

}  // namespace beamline::cuda
