// The products of all experts' rows in 16 bits. Parts of the features are copied to shared memory
// several stages ahead. The rows of a tile fit the number of rows per expert.
#pragma once

#include "kernels/cuda/device/mma.cuh"
#include "kernels/cuda/products/expert_tiles.cuh"

namespace beamline::cuda {

// The tile of a block: kRowsOfTile places. Its warps divide the weight's rows and the places. Two
// blocks of kStagesOfBlock stages fit on a multiprocessor of sm_80 and sm_90.
template <int kRowsOfTile, int kFeatureWarps, int kRowWarps, int kStagesOfBlock>
struct StagedTile {
  static constexpr int kRows = kRowsOfTile;
  static constexpr int kStages = kStagesOfBlock;
  static constexpr int kFeatures =
      128;                           // rows of the weight; half of them are gates if it is gated
  static constexpr int kDepth = 64;  // input features of a stage: a line of 128 bytes
  static constexpr int kChunks = kDepth / 8;
  static constexpr int kWarps = kFeatureWarps * kRowWarps;
  static constexpr int kThreads = kWarps * kWarpSize;
  static constexpr int kWarpFeatures = kFeatures / kFeatureWarps;
  static constexpr int kWarpRows = kRows / kRowWarps;
  static constexpr int kStageElements = (kFeatures + kRows) * kDepth;
  static constexpr int kSharedBytes = kStages * kStageElements * 2;
  static_assert(kWarpFeatures % 32 == 0 && kWarpRows % 16 == 0);
  static_assert(kRows * (kFeatures + 8) <=
                kStages * kStageElements);  // for the results, which leave through this memory
};

// One thread's share of a tile of kTileRows rows in shared memory: chunks of 16 bytes.
template <typename T, typename Tile, int kTileRows>
struct StagedRows {
  static constexpr int kApart = Tile::kThreads / Tile::kChunks;
  static constexpr int kCopies = kTileRows / kApart;
  static_assert(kCopies * kApart == kTileRows);
  const T* rows[kCopies];  // null: zeros

  static __device__ int Row(int i) { return threadIdx.x / Tile::kChunks + i * kApart; }

  // `any`: an address for copies that read nothing.
  __device__ void Copy(SwizzledTile<T, Tile::kDepth> to, int first, int end, const T* any) const {
    const int chunk = threadIdx.x % Tile::kChunks;
    const int column = first + chunk * 8;
#pragma unroll
    for (int i = 0; i < kCopies; ++i) {
      const bool valid = rows[i] != nullptr && column < end;
      CopyAsync(to.Chunk(Row(i), chunk), valid ? rows[i] + column : any, valid);
    }
  }
};

// A warp's sums: rows of the weight by places.
template <typename T, typename Tile>
struct StagedSums {
  static constexpr int kFeatureTiles = Tile::kWarpFeatures / 16;
  static constexpr int kRowTiles = Tile::kWarpRows / 8;
  float sums[kFeatureTiles][kRowTiles][4] = {};

  __device__ void Add(SwizzledTile<T, Tile::kDepth> weight, SwizzledTile<T, Tile::kDepth> x,
                      int first_feature, int first_row) {
    const int lane = threadIdx.x % kWarpSize;
#pragma unroll
    for (int step = 0; step < Tile::kDepth / 16; ++step) {
      uint32_t a[kFeatureTiles][4], b[kRowTiles / 2][4];
#pragma unroll
      for (int m = 0; m < kFeatureTiles; ++m) {
        LoadMatrices(weight.Chunk(first_feature + m * 16 + lane % 16, step * 2 + lane / 16), a[m]);
      }
#pragma unroll
      for (int n = 0; n < kRowTiles / 2; ++n) {
        LoadMatrices(
            x.Chunk(first_row + n * 16 + lane / 16 * 8 + lane % 8, step * 2 + lane / 8 % 2), b[n]);
      }
#pragma unroll
      for (int m = 0; m < kFeatureTiles; ++m) {
#pragma unroll
        for (int n = 0; n < kRowTiles; ++n) {
          MultiplyAdd<T>(a[m], b[n / 2][n % 2 * 2], b[n / 2][n % 2 * 2 + 1], sums[m][n]);
        }
      }
    }
  }
};

// The row of the weight that is row `r` of a block's tile, or -1. In a gated weight a warp has the
// gates of its units first and then their up projections, so that it has both of each unit.
template <typename Tile, bool kGated>
__device__ int StagedWeightRow(int r, int first_unit, int columns) {
  if constexpr (!kGated) return first_unit + r < columns ? first_unit + r : -1;
  constexpr int kHalf = Tile::kWarpFeatures / 2;
  const int unit = first_unit + r / Tile::kWarpFeatures * kHalf + r % kHalf;
  return unit < columns ? r / kHalf % 2 * columns + unit : -1;
}

// y = x W^T with the weight of a place's expert, or act(gate) * up, as in ExpertProductKernel. x, y
// and their strides are multiples of 16 bytes. Grid: (tiles of columns, tiles of places). Bound by
// memory if experts have few rows. If they have many, bound by tensor cores that are fed from
// registers.
template <typename T, typename Tile, bool kGated>
__global__ void __launch_bounds__(Tile::kThreads, 2)
    StagedExpertKernel(ProductArgs<T> args, ExpertPointers weights) {
  constexpr int kUnits = kGated ? Tile::kFeatures / 2 : Tile::kFeatures;
  constexpr int kPitch =
      kUnits + 8;  // of the results: the rows of a warp's access lie in different banks
  extern __shared__ __align__(128) char staged_memory[];
  T* const memory = reinterpret_cast<T*>(staged_memory);
  __shared__ RowTile shared_tile;
  if (threadIdx.x < kWarpSize) {
    const RowTile found = FindTile(args.offsets, args.num_experts, blockIdx.y, Tile::kRows);
    if (threadIdx.x == 0) shared_tile = found;
  }
  __syncthreads();
  const RowTile tile = shared_tile;
  if (tile.num_rows == 0) return;
  const int first_unit = blockIdx.x * kUnits;
  const T* const weight = static_cast<const T*>(weights.experts[tile.expert]);
  StagedRows<T, Tile, Tile::kFeatures> weight_rows;
#pragma unroll
  for (int i = 0; i < weight_rows.kCopies; ++i) {
    const int row = StagedWeightRow<Tile, kGated>(weight_rows.Row(i), first_unit, args.columns);
    weight_rows.rows[i] = row < 0 ? nullptr : weight + row * args.weight_stride;
  }
  StagedRows<T, Tile, Tile::kRows> x_rows;
#pragma unroll
  for (int i = 0; i < x_rows.kCopies; ++i) {
    const int place = tile.first_place + x_rows.Row(i);
    const bool valid = x_rows.Row(i) < tile.num_rows;
    const int row = !valid ? 0 : args.rows == nullptr ? place : args.rows[place];
    x_rows.rows[i] = valid ? args.x + row * args.x_stride : nullptr;
  }
  using Part = SwizzledTile<T, Tile::kDepth>;
  const auto weight_part = [&](int stage) { return Part{memory + stage * Tile::kStageElements}; };
  const auto x_part = [&](int stage) {
    return Part{memory + stage * Tile::kStageElements + Tile::kFeatures * Tile::kDepth};
  };
  const int num_steps = (args.in_features + Tile::kDepth - 1) / Tile::kDepth;
  const auto fetch = [&](int step) {
    if (step < num_steps) {
      const int stage = step % Tile::kStages;
      weight_rows.Copy(weight_part(stage), step * Tile::kDepth, args.in_features, weight);
      x_rows.Copy(x_part(stage), step * Tile::kDepth, args.in_features, args.x);
    }
    CommitCopies();  // an empty group after the last step, because the waits count groups
  };
#pragma unroll
  for (int step = 0; step < Tile::kStages - 1; ++step) fetch(step);
  constexpr int kFeatureWarps = Tile::kFeatures / Tile::kWarpFeatures;
  const int warp = threadIdx.x / kWarpSize;
  const int feature_warp = warp % kFeatureWarps;
  const int first_row = warp / kFeatureWarps * Tile::kWarpRows;
  StagedSums<T, Tile> sums;
  for (int step = 0; step < num_steps; ++step) {
    WaitForCopies<Tile::kStages - 2>();
    __syncthreads();  // all copies have arrived, and the stage filled next is multiplied
    fetch(step + Tile::kStages - 1);
    const int stage = step % Tile::kStages;
    sums.Add(weight_part(stage), x_part(stage), feature_warp * Tile::kWarpFeatures, first_row);
  }
  WaitForCopies<0>();
  __syncthreads();
  constexpr int kParts = kGated ? 2 : 1;
  constexpr int kUnitTiles = sums.kFeatureTiles / kParts;
  const int lane = threadIdx.x % kWarpSize;
#pragma unroll
  for (int m = 0; m < kUnitTiles; ++m) {
#pragma unroll
    for (int n = 0; n < sums.kRowTiles; ++n) {
      if constexpr (kGated) ActivateAll(args.activation, sums.sums[m][n]);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        float value = sums.sums[m][n][i];
        if constexpr (kGated) value *= sums.sums[m + kUnitTiles][n][i];
        const int row = first_row + n * 8 + lane % 4 * 2 + i % 2;
        const int unit =
            feature_warp * (Tile::kWarpFeatures / kParts) + m * 16 + lane / 4 + i / 2 * 8;
        memory[row * kPitch + unit] = FromFloat<T>(value);
      }
    }
  }
  __syncthreads();
  using Chunk = Vec<T, 8>;
  for (int i = threadIdx.x; i < tile.num_rows * (kUnits / 8); i += Tile::kThreads) {
    const int row = i / (kUnits / 8), unit = i % (kUnits / 8) * 8;
    if (first_unit + unit >= args.columns) continue;
    T* const to = args.y + (tile.first_place + row) * args.y_stride + first_unit + unit;
    *reinterpret_cast<Chunk*>(to) = *reinterpret_cast<const Chunk*>(memory + row * kPitch + unit);
  }
}

// Average places per expert up to which these tiles are used. Routing is uneven: some experts have
// twice as many.
inline constexpr int kMostOfSmallTiles = 8;
inline constexpr int kMostOfMiddlingTiles = 48;
using SmallExpertTile = StagedTile<16, 4, 1, 5>;
using MiddlingExpertTile = StagedTile<64, 4, 2, 4>;
using LargeExpertTile = StagedTile<128, 2, 4, 3>;

}  // namespace beamline::cuda
