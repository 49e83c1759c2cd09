// The products of all experts' rows in one kernel, tile by tile: on tensor cores in 16 bits,
// without them in float32. In 16 bits only for rows that cannot be read 16 bytes at a time; the
// others use expert_stages.cuh.
#pragma once

#include <mma.h>

#include "kernels/cuda/device/scalar.cuh"
#include "kernels/cuda/products/activation.cuh"
#include "kernels/operators.h"

namespace beamline::cuda {

// Experts per lane of a warp that reads all of them.
inline constexpr int kExpertsPerLane = kMostExperts / kWarpSize;

struct ExpertPointers {
  const void* experts[kMostExperts];  // [out_features, in_features] each
};

template <typename T>
struct ProductArgs {
  const T* x;  // rows of places, or the rows that `rows` names if it is set
  int64_t x_stride;
  bool x_is_aligned;    // rows can be read 16 bytes at a time
  const int32_t* rows;  // may be null
  const int32_t* offsets;
  int num_experts;
  int64_t weight_stride;
  int in_features;
  int columns;  // of y; a gated weight has two rows per column
  Activation activation;
  T* y;  // [num_places, columns]
  int64_t y_stride;
  bool y_is_aligned;
};

inline constexpr int kTile = 64;  // rows and columns of y that a block computes
inline constexpr int kTileThreads = 128;
// A row of the tiles in shared memory has `kDepth` features, and 16 bytes more, so that the rows of
// a warp's access lie in different banks.
template <typename T>
inline constexpr int kDepth = 64 / static_cast<int>(sizeof(T));
template <typename T>
inline constexpr int kPitch = kDepth<T> + kVecSize<T>;
inline constexpr int kSumPitch = kTile + 4;

// The part of a tile of kTile rows that a thread copies to shared memory.
template <typename T>
struct TilePart {
  static constexpr int kVecs = kTile * kDepth<T> / kVecSize<T> / kTileThreads;
  Vec<T, kVecSize<T>> vecs[kVecs];

  static __device__ int Row(int i) {
    return (threadIdx.x + i * kTileThreads) / (kDepth<T> / kVecSize<T>);
  }
  static __device__ int Column(int i) {
    return (threadIdx.x + i * kTileThreads) % (kDepth<T> / kVecSize<T>)*kVecSize<T>;
  }

  // row_of: a row's first element, or null if there is no such row. Missing elements and those from
  // `end` on are 0.
  template <typename RowOf>
  __device__ void Load(const RowOf& row_of, int first, int end, bool aligned) {
#pragma unroll
    for (int i = 0; i < kVecs; ++i) {
      const T* const row = row_of(Row(i));
      const int column = first + Column(i);
      if (row != nullptr && aligned && column + kVecSize<T> <= end) {
        vecs[i] = *reinterpret_cast<const Vec<T, kVecSize<T>>*>(row + column);
        continue;
      }
#pragma unroll
      for (int j = 0; j < kVecSize<T>; ++j) {
        vecs[i].values[j] =
            row != nullptr && column + j < end ? row[column + j] : FromFloat<T>(0.0f);
      }
    }
  }
  __device__ void Store(T* tile) const {
#pragma unroll
    for (int i = 0; i < kVecs; ++i) {
      *reinterpret_cast<Vec<T, kVecSize<T>>*>(tile + Row(i) * kPitch<T> + Column(i)) = vecs[i];
    }
  }
};

// The sums of kTile x kTile products. On tensor cores a warp has 32 x 32 of them.
template <typename T>
struct TileSums {
  static constexpr int kSide = 16, kSides = 2;
  nvcuda::wmma::fragment<nvcuda::wmma::accumulator, kSide, kSide, kSide, float> sums[kSides]
                                                                                    [kSides];

  static __device__ int FirstRow() { return threadIdx.x / kWarpSize / 2 * kSide * kSides; }
  static __device__ int FirstColumn() { return threadIdx.x / kWarpSize % 2 * kSide * kSides; }

  __device__ void Clear() {
#pragma unroll
    for (int m = 0; m < kSides; ++m) {
#pragma unroll
      for (int n = 0; n < kSides; ++n) nvcuda::wmma::fill_fragment(sums[m][n], 0.0f);
    }
  }
  __device__ void Add(const T* x, const T* weight) {
    using namespace nvcuda::wmma;
#pragma unroll
    for (int k = 0; k < kDepth<T>; k += kSide) {
      fragment<matrix_a, kSide, kSide, kSide, T, row_major> a[kSides];
      fragment<matrix_b, kSide, kSide, kSide, T, col_major> b[kSides];
#pragma unroll
      for (int i = 0; i < kSides; ++i) {
        load_matrix_sync(a[i], x + (FirstRow() + i * kSide) * kPitch<T> + k, kPitch<T>);
        load_matrix_sync(b[i], weight + (FirstColumn() + i * kSide) * kPitch<T> + k, kPitch<T>);
      }
#pragma unroll
      for (int m = 0; m < kSides; ++m) {
#pragma unroll
        for (int n = 0; n < kSides; ++n) mma_sync(sums[m][n], a[m], b[n], sums[m][n]);
      }
    }
  }
  __device__ void Store(float* tile) const {
#pragma unroll
    for (int m = 0; m < kSides; ++m) {
#pragma unroll
      for (int n = 0; n < kSides; ++n) {
        float* const at = tile + (FirstRow() + m * kSide) * kSumPitch + FirstColumn() + n * kSide;
        nvcuda::wmma::store_matrix_sync(at, sums[m][n], kSumPitch, nvcuda::wmma::mem_row_major);
      }
    }
  }
};

// In float32, without tensor cores, a thread has 8 rows of 4 columns that are 16 apart.
template <>
struct TileSums<float> {
  static constexpr int kRows = 8, kColumns = 4, kApart = kTile / kColumns;
  float sums[kRows][kColumns];

  static __device__ int FirstRow() { return threadIdx.x / kApart * kRows; }
  static __device__ int FirstColumn() { return threadIdx.x % kApart; }

  __device__ void Clear() {
#pragma unroll
    for (int m = 0; m < kRows; ++m) {
#pragma unroll
      for (int n = 0; n < kColumns; ++n) sums[m][n] = 0.0f;
    }
  }
  __device__ void Add(const float* x, const float* weight) {
#pragma unroll 4
    for (int k = 0; k < kDepth<float>; ++k) {
      float b[kColumns];
#pragma unroll
      for (int n = 0; n < kColumns; ++n) {
        b[n] = weight[(FirstColumn() + n * kApart) * kPitch<float> + k];
      }
#pragma unroll
      for (int m = 0; m < kRows; ++m) {
        const float a = x[(FirstRow() + m) * kPitch<float> + k];
#pragma unroll
        for (int n = 0; n < kColumns; ++n) sums[m][n] = fmaf(a, b[n], sums[m][n]);
      }
    }
  }
  __device__ void Store(float* tile) const {
#pragma unroll
    for (int m = 0; m < kRows; ++m) {
#pragma unroll
      for (int n = 0; n < kColumns; ++n) {
        tile[(FirstRow() + m) * kSumPitch + FirstColumn() + n * kApart] = sums[m][n];
      }
    }
  }
};

// The rows of an expert that a block computes.
struct RowTile {
  int expert;
  int first_place, num_rows;
};

// Tile `index` of the tiles of all experts, which have tile_rows rows each. num_rows is 0 if there
// are fewer tiles. Called by the first warp.
__device__ inline RowTile FindTile(const int32_t* offsets, int num_experts, int index,
                                   int tile_rows) {
  const int lane = threadIdx.x;
  int counts[kExpertsPerLane];
  int own = 0;
#pragma unroll
  for (int i = 0; i < kExpertsPerLane; ++i) {
    const int expert = lane * kExpertsPerLane + i;
    counts[i] = expert < num_experts
                    ? (offsets[expert + 1] - offsets[expert] + tile_rows - 1) / tile_rows
                    : 0;
    own += counts[i];
  }
  int end = own;
  for (int offset = 1; offset < kWarpSize; offset *= 2) {
    const int before = __shfl_up_sync(kFullMask, end, offset);
    if (lane >= offset) end += before;
  }
  RowTile tile = {0, 0, 0};
  int first = end - own;
#pragma unroll
  for (int i = 0; i < kExpertsPerLane; ++i) {
    const int expert = lane * kExpertsPerLane + i;
    if (index >= first && index < first + counts[i]) {
      tile.expert = expert;
      tile.first_place = offsets[expert] + (index - first) * tile_rows;
      tile.num_rows = min(tile_rows, offsets[expert + 1] - tile.first_place);
    }
    first += counts[i];
  }
  const unsigned found = __ballot_sync(kFullMask, tile.num_rows > 0);
  const int source = found == 0 ? 0 : __ffs(static_cast<int>(found)) - 1;
  tile.expert = __shfl_sync(kFullMask, tile.expert, source);
  tile.first_place = __shfl_sync(kFullMask, tile.first_place, source);
  tile.num_rows = __shfl_sync(kFullMask, tile.num_rows, source);
  return tile;
}

// y = x W^T with the weight of a place's expert, or act(gate) * up. Grid: (tiles of columns, tiles
// of places). The next part of the features is loaded while one is multiplied. Bound by memory if
// experts have few rows, by the loads from shared memory if they have many.
template <typename T, bool kGated>
__global__ void __launch_bounds__(kTileThreads)
    ExpertProductKernel(ProductArgs<T> args, ExpertPointers weights) {
  constexpr int kParts = kGated ? 2 : 1;
  constexpr int kInputBytes = (1 + kParts) * kTile * kPitch<T> * static_cast<int>(sizeof(T));
  constexpr int kSumBytes = kParts * kTile * kSumPitch * static_cast<int>(sizeof(float));
  __shared__ alignas(128) char memory[kInputBytes > kSumBytes ? kInputBytes : kSumBytes];
  __shared__ RowTile shared_tile;
  if (threadIdx.x < kWarpSize) {
    const RowTile found = FindTile(args.offsets, args.num_experts, blockIdx.y, kTile);
    if (threadIdx.x == 0) shared_tile = found;
  }
  __syncthreads();
  const RowTile tile = shared_tile;
  if (tile.num_rows == 0) return;
  const int first_column = blockIdx.x * kTile;
  const T* const weight = static_cast<const T*>(weights.experts[tile.expert]);
  const auto x_row = [&](int r) -> const T* {
    if (r >= tile.num_rows) return nullptr;
    const int place = tile.first_place + r;
    return args.x + (args.rows == nullptr ? place : args.rows[place]) * args.x_stride;
  };
  const auto weight_row = [&](int part, int r) -> const T* {
    const int column = first_column + r;
    if (column >= args.columns) return nullptr;
    return weight + (static_cast<int64_t>(part) * args.columns + column) * args.weight_stride;
  };
  T* const x_tile = reinterpret_cast<T*>(memory);
  TilePart<T> x, w[kParts];
  const auto load = [&](int k) {
    x.Load(x_row, k, args.in_features, args.x_is_aligned);
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
      w[part].Load([&](int r) { return weight_row(part, r); }, k, args.in_features, true);
    }
  };
  TileSums<T> sums[kParts];
#pragma unroll
  for (int part = 0; part < kParts; ++part) sums[part].Clear();
  load(0);
  for (int k = 0; k < args.in_features; k += kDepth<T>) {
    __syncthreads();  // the previous part has been multiplied
    x.Store(x_tile);
#pragma unroll
    for (int part = 0; part < kParts; ++part)
      w[part].Store(x_tile + (1 + part) * kTile * kPitch<T>);
    __syncthreads();
    if (k + kDepth<T> < args.in_features) load(k + kDepth<T>);
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
      sums[part].Add(x_tile, x_tile + (1 + part) * kTile * kPitch<T>);
    }
  }
  __syncthreads();
  float* const results = reinterpret_cast<float*>(memory);
#pragma unroll
  for (int part = 0; part < kParts; ++part) sums[part].Store(results + part * kTile * kSumPitch);
  __syncthreads();
  for (int i = threadIdx.x; i < tile.num_rows * kTile; i += kTileThreads) {
    const int r = i / kTile, column = i % kTile;
    if (first_column + column >= args.columns) continue;
    float value = results[r * kSumPitch + column];
    if constexpr (kGated) {
      value = Activate(args.activation, value) * results[(kTile + r) * kSumPitch + column];
    }
    args.y[(tile.first_place + r) * args.y_stride + first_column + column] = FromFloat<T>(value);
  }
}

}  // namespace beamline::cuda
