// The device side of tile_product.cu: tiles, the warp that copies, the warpgroups that multiply.
#pragma once

#include "kernels/cuda/device/hopper.cuh"
#include "kernels/cuda/device/thread_block_cluster.cuh"
#include "kernels/cuda/device/tile_panels.cuh"

namespace beamline::cuda::tile_product {

inline constexpr int kRows = 128;                // of a tile
inline constexpr int kColumns = 256;             // of a tile
inline constexpr int kDepth = kSwizzledColumns;  // of a step along k
inline constexpr int kStages = 3;
inline constexpr int kGroups = 2;  // warpgroups that multiply, half of a tile's rows each
inline constexpr int kGroupRows = kRows / kGroups;
inline constexpr int kWarpsPerGroup = kWarpgroupSize / kWarpSize;
inline constexpr int kThreads = (kGroups + 1) * kWarpgroupSize;
inline constexpr int kCopyRegisters = 40;
inline constexpr int kMultiplyRegisters = 232;
inline constexpr int kPartColumns = kSwizzledColumns;  // of a tile on its way out
inline constexpr int kParts = kColumns / kPartColumns;
inline constexpr int kBuffers = 4;  // for such parts, of each warpgroup
inline constexpr int kMaskWords = kColumns / 32;

enum class Finish : uint8_t {
  kForward,   // a bias or zeros, then ReLU or nothing
  kGradient,  // ReLU's, and column sums where there is room for them
};

// What a warpgroup needs beside the sums: the bias of a tile's columns, or the column sums of a
// part by each warp.
union Beside {
  float bias[kColumns];
  float sums[kWarpsPerGroup][kPartColumns];
};

template <typename T>
struct Shared {
  T a[kStages][kRows * kDepth];
  T b[kStages][kColumns * kDepth];
  T d[kGroups][kBuffers][kGroupRows * kPartColumns];
  Beside beside[kGroups];
  SharedBarrier full[kStages], empty[kStages];
};

// a [m, k]; b [n, k], or [k, n] in boxes of kDepth rows; d [m, n] in boxes of a group's part.
struct Maps {
  CUtensorMap a, b, d;
};

template <typename T>
struct Args {
  const T* bias;        // [n] or null
  const uint8_t* mask;  // [m, mask_stride], bit j % 8 of byte j / 8 is column j's
  int64_t mask_stride;
  float* partials;  // [row tiles * kGroups, n] or null
  float alpha;
  bool relu;
  int m, n;
  int steps;         // of kDepth along k
  TilePanels tiles;  // of a cluster's rows each
};

struct Tile {
  int row, column;
};

template <int kCluster, typename T>
__device__ Tile TileAt(const Args<T>& args, int place, int rank) {
  const TilePlace tile = args.tiles.At(place);
  return {(tile.row * kCluster + rank) * kRows, tile.column * kColumns};
}

// What one thread of the copying warp does. The blocks of a cluster compute the same columns of
// neighbouring rows, and each copies a part of b's tile to all of them.
template <int kCluster, bool kTransposed, typename T>
__device__ void CopyTiles(Shared<T>& shared, const Maps& maps, const Args<T>& args, int rank) {
  constexpr int kBytes = (kRows + kColumns) * kDepth * static_cast<int>(sizeof(T));
  constexpr int kOwnColumns = kColumns / kCluster;
  constexpr int kBoxColumns = kTransposed ? kOwnColumns : kSwizzledColumns;
  const int size = args.tiles.size();
  const int clusters = static_cast<int>(gridDim.x) / kCluster;
  Ring<kStages> stage = {0, 1};  // nothing to wait for in the first round
  for (int place = static_cast<int>(blockIdx.x) / kCluster; place < size; place += clusters) {
    const Tile tile = TileAt<kCluster>(args, place, rank);
    for (int step = 0; step < args.steps; ++step) {
      WaitFor(shared.empty[stage.at], stage.parity);
      SharedBarrier& full = shared.full[stage.at];
      ArriveAndExpect(full, kBytes);
      CopyBox(shared.a[stage.at], maps.a, step * kDepth, tile.row, full);
#pragma unroll
      for (int own = 0; own < kOwnColumns; own += kBoxColumns) {
        T* const to = shared.b[stage.at] + (rank * kOwnColumns + own) * kDepth;
        const int column = tile.column + rank * kOwnColumns + own;
        const int c0 = kTransposed ? step * kDepth : column;
        const int c1 = kTransposed ? column : step * kDepth;
        if constexpr (kCluster == 1) {
          CopyBox(to, maps.b, c0, c1, full);
        } else {
          CopyBoxToBlocks(to, maps.b, c0, c1, full, (1 << kCluster) - 1);
        }
      }
      stage.Advance();
    }
  }
}

// A warpgroup that multiplies: its rows of each of the block's tiles.
template <int kCluster, bool kTransposed, Finish kFinish, typename T>
struct Multiplier {
  using Sums = float[kColumns / 2];
  using Mask = uint32_t[2][kMaskWords];  // of this lane's two rows

  Shared<T>& shared;
  const Maps& maps;
  const Args<T>& args;
  const int rank;
  const int group, warp, lane;
  Ring<kStages> stage;

  __device__ void Run() {
    const int size = args.tiles.size();
    const int clusters = static_cast<int>(gridDim.x) / kCluster;
    for (int place = static_cast<int>(blockIdx.x) / kCluster; place < size; place += clusters) {
      const Tile tile = TileAt<kCluster>(args, place, rank);
      // Loaded now, so that it is there when the sums are.
      Mask mask = {};
      if constexpr (kFinish == Finish::kForward) {
        LoadBias(tile);
      } else {
        LoadMask(tile, mask);
      }
      Sums sums = {};
      Multiply(sums);
      FinishTile(tile, mask, sums);
    }
    if (IsStorer()) WaitForStores();
  }

  // The barrier of the threads of this group; 0 is the block's own.
  __device__ void SyncGroup() const { SyncSome(1 + group, kWarpgroupSize); }
  __device__ bool IsStorer() const { return warp == 0 && lane == 0; }

  // A stage is free once the warpgroups of all blocks are done with what they got of it.
  __device__ void Release(int at) const {
    if constexpr (kCluster == 1) {
      if (lane == 0) Arrive(shared.empty[at]);
    } else {
      if (lane < kCluster) ArriveAtBlock(shared.empty[at], lane);
    }
  }

  __device__ void Multiply(Sums& sums) {
    constexpr int kGroupBytes = kGroupRows * kDepth * static_cast<int>(sizeof(T));
    constexpr int kAPartBytes = 16 * static_cast<int>(sizeof(T));
    constexpr int kBPartBytes =
        kTransposed ? kAPartBytes : 16 * kSwizzledColumns * static_cast<int>(sizeof(T));
    constexpr int kBoxBytes = kDepth * kSwizzledColumns * static_cast<int>(sizeof(T));
    int before = 0;
    KeepInOrder(sums);
    for (int step = 0; step < args.steps; ++step) {
      WaitFor(shared.full[stage.at], stage.parity);
      const uint64_t a = Further(TileDescriptor(shared.a[stage.at]), group * kGroupBytes);
      const uint64_t b = TileDescriptor(shared.b[stage.at], kTransposed ? 16 : kBoxBytes);
      StartProducts();
#pragma unroll
      for (int part = 0; part < kDepth / 16; ++part) {
        if constexpr (kTransposed) {
          MultiplyTiles<T>(Further(a, part * kAPartBytes), Further(b, part * kBPartBytes), true,
                           sums);
        } else {
          MultiplyColumns<T>(Further(a, part * kAPartBytes), Further(b, part * kBPartBytes), true,
                             sums);
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
    WaitForProducts<0>();
    KeepInOrder(sums);
    Release(before);
  }

  // Read after the next SyncGroup. The last one was after the last tile's bias had been read.
  __device__ void LoadBias(const Tile& tile) {
#pragma unroll
    for (int i = warp * kWarpSize + lane; i < kColumns; i += kWarpgroupSize) {
      const int column = tile.column + i;
      shared.beside[group].bias[i] =
          args.bias != nullptr && column < args.n ? ToFloat(args.bias[column]) : 0.0f;
    }
  }

  // Rows of the mask are multiples of 16 bytes, so that what begins before column n is there.
  __device__ void LoadMask(const Tile& tile, Mask& mask) const {
    constexpr int kLoadColumns = 8 * static_cast<int>(sizeof(uint4));
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = tile.row + group * kGroupRows + warp * 16 + half * 8 + lane / 4;
#pragma unroll
      for (int load = 0; load < kColumns / kLoadColumns; ++load) {
        const int column = tile.column + load * kLoadColumns;
        uint4 bits = {};
        if (row < args.m && column < args.n) {
          bits = *reinterpret_cast<const uint4*>(args.mask + row * args.mask_stride + column / 8);
        }
        mask[half][4 * load] = bits.x, mask[half][4 * load + 1] = bits.y;
        mask[half][4 * load + 2] = bits.z, mask[half][4 * load + 3] = bits.w;
      }
    }
  }

  __device__ void FinishTile(const Tile& tile, const Mask& mask, const Sums& sums) {
    const int row = tile.row + group * kGroupRows;
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
      // The store before the last one has read its buffer, which is the next in turn.
      if (IsStorer()) WaitForStoresToRead<kBuffers - 1>();
      SyncGroup();
      T* const buffer = shared.d[group][part % kBuffers];
      float values[kPartColumns / 2];
#pragma unroll
      for (int i = 0; i < kPartColumns / 2; ++i) {
        values[i] = args.alpha * sums[part * (kPartColumns / 2) + i];
      }
      if constexpr (kFinish == Finish::kForward) {
        AddBias(part, values);
      } else {
        ApplyMask(part, mask, values);
        if (args.partials != nullptr) SumColumns(values);
      }
      StorePart(values, buffer);
      PublishToCopies();
      SyncGroup();
      const int column = tile.column + part * kPartColumns;
      if (IsStorer()) StoreBox(maps.d, buffer, column, row);
      if constexpr (kFinish == Finish::kGradient) {
        if (args.partials != nullptr) WriteSums(row, column);
      }
    }
  }

  __device__ void AddBias(int part, float (&values)[kPartColumns / 2]) const {
    const float* const bias = shared.beside[group].bias + part * kPartColumns + lane % 4 * 2;
#pragma unroll
    for (int n = 0; n < kPartColumns / 8; ++n) {
      const float2 pair = *reinterpret_cast<const float2*>(bias + 8 * n);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        float& value = values[4 * n + i];
        value += i % 2 == 0 ? pair.x : pair.y;
        if (args.relu && value < 0.0f) value = 0.0f;  // not of a NaN
      }
    }
  }

  __device__ void ApplyMask(int part, const Mask& mask, float (&values)[kPartColumns / 2]) const {
#pragma unroll
    for (int n = 0; n < kPartColumns / 8; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const uint32_t word = mask[i / 2][part * (kPartColumns / 32) + n / 4];
        const int bit = n % 4 * 8 + lane % 4 * 2 + i % 2;
        if ((word >> bit & 1) == 0) values[4 * n + i] = 0.0f;
      }
    }
  }

  // A lane begins with 16 columns of two rows. Each exchange adds the rows of eight, four and two
  // lanes and leaves a lane half of the columns.
  __device__ void SumColumns(const float (&values)[kPartColumns / 2]) {
    float sums[kPartColumns / 4];
#pragma unroll
    for (int n = 0; n < kPartColumns / 8; ++n) {
      sums[2 * n] = values[4 * n] + values[4 * n + 2];
      sums[2 * n + 1] = values[4 * n + 1] + values[4 * n + 3];
    }
#pragma unroll
    for (int count = kPartColumns / 8; count >= 2; count /= 2) {
      const int distance = 2 * count;  // 16, 8, 4 lanes
      const bool upper = (lane & distance) != 0;
#pragma unroll
      for (int i = 0; i < count; ++i) {
        const float sent = upper ? sums[i] : sums[i + count];
        const float kept = upper ? sums[i + count] : sums[i];
        sums[i] = kept + __shfl_xor_sync(kFullMask, sent, distance);
      }
    }
    const int n = (lane >> 4 & 1) * 4 + (lane >> 3 & 1) * 2 + (lane >> 2 & 1);
    *reinterpret_cast<float2*>(shared.beside[group].sums[warp] + 8 * n + lane % 4 * 2) = {sums[0],
                                                                                          sums[1]};
  }

  // Of a part's columns, after the barrier behind SumColumns and before the next one.
  __device__ void WriteSums(int row, int column) const {
    const int own = warp * kWarpSize + lane;
    if (own >= kPartColumns || column + own >= args.n) return;
    float total = 0.0f;
#pragma unroll
    for (int w = 0; w < kWarpsPerGroup; ++w) total += shared.beside[group].sums[w][own];
    args.partials[int64_t{row / kGroupRows} * args.n + column + own] = total;
  }

  __device__ void StorePart(const float (&values)[kPartColumns / 2], T* buffer) const {
    // Two times two matrices of 8 x 8 at a time: rows 0 to 7 and 8 to 15 of 16 columns.
    const SwizzledTile<T, kPartColumns> tile = {buffer};
    const int row = warp * 16 + lane % 16;
#pragma unroll
    for (int n = 0; n < kPartColumns / 16; ++n) {
      const uint32_t words[4] = {PackPair<T>(values[8 * n], values[8 * n + 1]),
                                 PackPair<T>(values[8 * n + 2], values[8 * n + 3]),
                                 PackPair<T>(values[8 * n + 4], values[8 * n + 5]),
                                 PackPair<T>(values[8 * n + 6], values[8 * n + 7])};
      StoreMatrices(words, tile.Chunk(row, 2 * n + lane / 16));
    }
  }
};

// Grid: a cluster for every kCluster multiprocessors, or for every tile. Bound by the tensor cores.
template <int kCluster, bool kTransposed, Finish kFinish, typename T>
__global__ void __cluster_dims__(kCluster, 1, 1) __launch_bounds__(kThreads, 1)
    ProductKernel(const __grid_constant__ Maps maps, const __grid_constant__ Args<T> args) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ __align__(kSwizzledAlignment) unsigned char memory[];
  auto& shared = *reinterpret_cast<Shared<T>*>(memory);
  if (threadIdx.x == 0) {
    for (int i = 0; i < kStages; ++i) {
      InitBarrier(shared.full[i], 1);
      InitBarrier(shared.empty[i], kGroups * kWarpsPerGroup * kCluster);
    }
    PublishBarriers();
  }
  if constexpr (kCluster == 1) {
    __syncthreads();
  } else {
    ClusterArrive();
    ClusterWait();
  }
  const int rank = kCluster == 1 ? 0 : RankInCluster();
  // Equal in all lanes, and by the shuffle the compiler knows it.
  const int warp = __shfl_sync(kFullMask, static_cast<int>(threadIdx.x) / kWarpSize, 0);
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const int group = warp / kWarpsPerGroup;
  if (group < kGroups) {
    TakeRegisters<kMultiplyRegisters>();
    Multiplier<kCluster, kTransposed, kFinish, T> multiplier = {
        shared, maps, args, rank, group, warp % kWarpsPerGroup, lane};
    multiplier.Run();
  } else {
    GiveRegisters<kCopyRegisters>();
    if (warp % kWarpsPerGroup == 0) {
      if (lane == 0) CopyTiles<kCluster, kTransposed>(shared, maps, args, rank);
      __syncwarp();
    }
  }
  // A block stays until no other of its cluster can arrive at its barriers.
  if constexpr (kCluster > 1) {
    ClusterArrive();
    ClusterWait();
  }
#endif
}

}  // namespace beamline::cuda::tile_product
