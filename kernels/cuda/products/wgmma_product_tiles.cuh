// Device code of wgmma_product.cu: tiles, the copying warp, the multiplying warpgroups.
#pragma once

#include "kernels/cuda/device/hopper.cuh"
#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/device/thread_block_cluster.cuh"
#include "kernels/cuda/products/activation.cuh"

namespace beamline::cuda::wgmma_product {

inline constexpr int kRows = 128;                // of a tile
inline constexpr int kDepth = kSwizzledColumns;  // input features of a step
inline constexpr int kGroups = 2;                // warpgroups that multiply, one tile each in turn
inline constexpr int kWarpsPerGroup = kWarpgroupSize / kWarpSize;
inline constexpr int kThreads = (kGroups + 1) * kWarpgroupSize;
inline constexpr int kCopyRegisters = 24;
inline constexpr int kMultiplyRegisters = 240;

// kTileColumns: output features of a tile. kClusterBlocks: blocks that compute the same output
// features of neighbouring rows. Each of them copies a part of the weight's tile to all of them.
template <int kTileColumns, int kNumStages, int kClusterBlocks>
struct Shape {
  static constexpr int kColumns = kTileColumns;
  static constexpr int kStages = kNumStages;
  static constexpr int kCluster = kClusterBlocks;
  static constexpr int kParts =
      kColumns / kSwizzledColumns;    // of a tile's rows, in which they are stored
  static constexpr int kBuffers = 2;  // for such parts, per warpgroup
};

template <typename T, typename S>
struct Shared {
  T x[S::kStages][kRows * kDepth];
  T weight[S::kStages][S::kColumns * kDepth];
  T y[kGroups][S::kBuffers][kRows * kSwizzledColumns];
  float bias[kGroups][S::kColumns];
  SharedBarrier full[S::kStages], empty[S::kStages];
};

// x [num_rows, depth]; weight [columns, depth], whose box is a block's part of a tile; y [num_rows,
// columns], whose box is a part.
struct Maps {
  CUtensorMap x, weight, y;
};

template <typename T>
struct Args {
  const T* bias;  // [columns] or null
  int columns;
  int steps;  // of kDepth input features
  // The tiles, in the order in which clusters take them: panels of `panel` tiles along a row, each
  // from the first rows to the last. Neighbours in this order share rows or weights in L2.
  int row_tiles;  // of a cluster's rows each
  int column_tiles;
  int panel;
};

struct Tile {
  int row, column;
};

template <typename T, typename S>
__device__ Tile TileAt(const Args<T>& args, int place, int rank) {
  const int panel_size = args.row_tiles * args.panel;
  const int panel = place / panel_size, rest = place - panel * panel_size;
  const int width = min(args.panel, args.column_tiles - panel * args.panel);
  const int row = rest / width;
  return {(row * S::kCluster + rank) * kRows,
          (panel * args.panel + rest - row * width) * S::kColumns};
}

// The work of one thread of the copying warp.
template <typename T, typename S>
__device__ void CopyTiles(Shared<T, S>& shared, const Maps& maps, const Args<T>& args, int rank) {
  constexpr int kBytes = (kRows + S::kColumns) * kDepth * static_cast<int>(sizeof(T));
  constexpr int kOwnColumns = S::kColumns / S::kCluster;
  const int size = args.row_tiles * args.column_tiles;
  const int clusters = static_cast<int>(gridDim.x) / S::kCluster;
  Ring<S::kStages> stage = {0, 1};  // the first round waits for nothing
  for (int place = static_cast<int>(blockIdx.x) / S::kCluster; place < size; place += clusters) {
    const Tile tile = TileAt<T, S>(args, place, rank);
    for (int step = 0; step < args.steps; ++step) {
      WaitFor(shared.empty[stage.at], stage.parity);
      SharedBarrier& full = shared.full[stage.at];
      ArriveAndExpect(full, kBytes);
      CopyBox(shared.x[stage.at], maps.x, step * kDepth, tile.row, full);
      T* const weight = shared.weight[stage.at] + rank * kOwnColumns * kDepth;
      const int column = tile.column + rank * kOwnColumns;
      if constexpr (S::kCluster == 1) {
        CopyBox(weight, maps.weight, step * kDepth, column, full);
      } else {
        CopyBoxToBlocks(weight, maps.weight, step * kDepth, column, full, (1 << S::kCluster) - 1);
      }
      stage.Advance();
    }
  }
}

// A multiplying warpgroup, which computes every second tile of the block. While it finishes a tile,
// the other one keeps the tensor cores busy.
template <typename T, typename S, Activation kActivation>
struct Multiplier {
  static constexpr int kHalves = 2;  // of a tile's rows, 64 each
  static constexpr int kHalfRows = kRows / kHalves;
  using Sums = float[kHalves][S::kColumns / 2];

  Shared<T, S>& shared;
  const Maps& maps;
  const Args<T>& args;
  const int rank;
  const int group, warp, lane;
  Ring<S::kStages> stage;
  int next_buffer = 0;  // of the next part, of this tile or the next one

  __device__ void Run() {
    if (group == 0) ArriveSome(TurnOf(0), kGroups * kWarpgroupSize);
    const int size = args.row_tiles * args.column_tiles;
    const int clusters = static_cast<int>(gridDim.x) / S::kCluster;
    int turn = group;
    for (int place = static_cast<int>(blockIdx.x) / S::kCluster + group * clusters; place < size;
         place += kGroups * clusters, turn += kGroups) {
      const Tile tile = TileAt<T, S>(args, place, rank);
      LoadBias(tile);
      SkipTo(turn);
      // Declared here, so that their registers are free for other numbers between two tiles.
      Sums sums = {};
      SyncSome(TurnOf(group), kGroups * kWarpgroupSize);
      Multiply(sums);
      if (place + clusters < size) ArriveSome(TurnOf(1 - group), kGroups * kWarpgroupSize);
      WaitForProducts<0>();
      KeepInOrder(sums[0]);
      KeepInOrder(sums[1]);
      Release(stage.at == 0 ? S::kStages - 1 : stage.at - 1);
      Finish(tile, sums);
    }
    if (IsStorer()) WaitForStores();
  }

  // The numbered barrier of a group's turn to multiply. 0 is the block's own barrier.
  __device__ static int TurnOf(int group) { return 1 + group; }
  // The barrier of this group's threads.
  __device__ void SyncGroup() const { SyncSome(1 + kGroups + group, kWarpgroupSize); }
  __device__ bool IsStorer() const { return warp == 0 && lane == 0; }

  // Moves on to the stage at which the block's tile number `turn` starts.
  __device__ void SkipTo(int turn) {
    const unsigned steps = static_cast<unsigned>(turn) * static_cast<unsigned>(args.steps);
    stage.at = static_cast<int>(steps % S::kStages);
    stage.parity = steps / S::kStages & 1;
  }

  // A stage is free when the warpgroups of all blocks are done with their part of it.
  __device__ void Release(int at) const {
    if constexpr (S::kCluster == 1) {
      if (lane == 0) Arrive(shared.empty[at]);
    } else {
      if (lane < S::kCluster) ArriveAtBlock(shared.empty[at], lane);
    }
  }

  // Returns with the last step's products in flight.
  __device__ void Multiply(Sums& sums) {
    constexpr int kHalfBytes = kHalfRows * kDepth * static_cast<int>(sizeof(T));
    constexpr int kPartBytes = 16 * static_cast<int>(sizeof(T));
    int before = 0;
    KeepInOrder(sums[0]);
    KeepInOrder(sums[1]);
    for (int step = 0; step < args.steps; ++step) {
      WaitFor(shared.full[stage.at], stage.parity);
      const uint64_t a = TileDescriptor(shared.x[stage.at]);
      const uint64_t b = TileDescriptor(shared.weight[stage.at]);
      StartProducts();
#pragma unroll
      for (int part = 0; part < kDepth / 16; ++part) {
#pragma unroll
        for (int half = 0; half < kHalves; ++half) {
          MultiplyTiles<T>(Further(a, half * kHalfBytes + part * kPartBytes),
                           Further(b, part * kPartBytes), true, sums[half]);
        }
      }
      CommitProducts();
      if (step > 0) {
        WaitForProducts<1>();
        Release(before);
      }
      before = stage.at;
      stage.Advance();
    }
    KeepInOrder(sums[0]);
    KeepInOrder(sums[1]);
  }

  // The bias is read after the next SyncGroup. The previous SyncGroup came after the previous
  // tile's bias had been read.
  __device__ void LoadBias(const Tile& tile) {
#pragma unroll
    for (int i = warp * kWarpSize + lane; i < S::kColumns; i += kWarpgroupSize) {
      const int column = tile.column + i;
      shared.bias[group][i] =
          args.bias != nullptr && column < args.columns ? ToFloat(args.bias[column]) : 0.0f;
    }
  }

  __device__ void Finish(const Tile& tile, const Sums& sums) {
#pragma unroll
    for (int part = 0; part < S::kParts; ++part) {
      // Waits until all but the last kBuffers - 1 stores have read their buffers. That frees the
      // next buffer only if the turns go on from tile to tile, because a tile may have an odd
      // number of parts.
      if (IsStorer()) WaitForStoresToRead<S::kBuffers - 1>();
      SyncGroup();
      T* const buffer = shared.y[group][next_buffer];
      next_buffer = (next_buffer + 1) % S::kBuffers;
#pragma unroll
      for (int half = 0; half < kHalves; ++half) FinishPart(part, half, sums, buffer);
      PublishToCopies();
      SyncGroup();
      const int column = tile.column + part * kSwizzledColumns;
      if (IsStorer()) StoreBox(maps.y, buffer, column, tile.row);
    }
  }

  __device__ void FinishPart(int part, int half, const Sums& sums, T* buffer) {
    constexpr int kSums = kSwizzledColumns / 2;
    float values[kSums];
    const float* const bias = shared.bias[group] + part * kSwizzledColumns + lane % 4 * 2;
#pragma unroll
    for (int n = 0; n < kSwizzledColumns / 8; ++n) {
      const float2 pair = *reinterpret_cast<const float2*>(bias + 8 * n);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        values[4 * n + i] = sums[half][part * kSums + 4 * n + i] + (i % 2 == 0 ? pair.x : pair.y);
      }
    }
    if constexpr (kActivation != Activation::kNone) ActivateAll(kActivation, values);
    // Stores two times two matrices of 8 x 8 at a time: rows 0 to 7 and 8 to 15 of 16 columns.
    const SwizzledTile<T, kSwizzledColumns> tile = {buffer};
    const int row = half * kHalfRows + warp * 16 + lane % 16;
#pragma unroll
    for (int n = 0; n < kSwizzledColumns / 16; ++n) {
      const uint32_t words[4] = {PackPair<T>(values[8 * n], values[8 * n + 1]),
                                 PackPair<T>(values[8 * n + 2], values[8 * n + 3]),
                                 PackPair<T>(values[8 * n + 4], values[8 * n + 5]),
                                 PackPair<T>(values[8 * n + 6], values[8 * n + 7])};
      StoreMatrices(words, tile.Chunk(row, 2 * n + lane / 16));
    }
  }
};

// Grid: one cluster for every kCluster multiprocessors, or for every tile. Bound by the tensor
// cores.
template <typename T, typename S, Activation kActivation>
__global__ void __cluster_dims__(S::kCluster, 1, 1) __launch_bounds__(kThreads, 1)
    ProductKernel(const __grid_constant__ Maps maps, const __grid_constant__ Args<T> args) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ unsigned char memory[];
  const uint32_t misplaced = SharedAddress(memory) % kSwizzledAlignment;
  auto& shared = *reinterpret_cast<Shared<T, S>*>(
      memory + (misplaced == 0 ? 0 : kSwizzledAlignment - misplaced));
  if (threadIdx.x == 0) {
    for (int i = 0; i < S::kStages; ++i) {
      InitBarrier(shared.full[i], 1);
      InitBarrier(shared.empty[i], kWarpsPerGroup * S::kCluster);
    }
    PublishBarriers();
  }
  if constexpr (S::kCluster == 1) {
    __syncthreads();
  } else {
    ClusterArrive();
    ClusterWait();
  }
  WaitForEarlierKernels();
  const int rank = S::kCluster == 1 ? 0 : RankInCluster();
  // Equal in all lanes. The shuffle tells the compiler so.
  const int warp = __shfl_sync(kFullMask, static_cast<int>(threadIdx.x) / kWarpSize, 0);
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const int group = warp / kWarpsPerGroup;
  if (group < kGroups) {
    TakeRegisters<kMultiplyRegisters>();
    Multiplier<T, S, kActivation> multiplier = {
        shared, maps, args, rank, group, warp % kWarpsPerGroup, lane};
    multiplier.Run();
  } else {
    GiveRegisters<kCopyRegisters>();
    if (warp % kWarpsPerGroup == 0) {
      if (lane == 0) CopyTiles(shared, maps, args, rank);
      __syncwarp();
    }
  }
  // A block stays until no other block of its cluster can arrive at its barriers.
  if constexpr (S::kCluster > 1) {
    ClusterArrive();
    ClusterWait();
  }
#endif
}

}  // namespace beamline::cuda::wgmma_product
