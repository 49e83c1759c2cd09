// Device code of cluster_product.cu: the copies, products and epilogue of a block of a cluster.
#pragma once

#include <limits>

#include "kernels/cuda/device/hopper.cuh"
#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/device/thread_block_cluster.cuh"
#include "kernels/cuda/products/cluster_tiles.h"

namespace beamline::cuda::cluster_product {

inline constexpr int kFeatures = kClusterFeatures;
inline constexpr int kDepth = kClusterDepth;
static_assert(kDepth == kSwizzledColumns);
inline constexpr int kMultiplyWarps = kWarpgroupSize / kWarpSize;
inline constexpr int kThreads = kWarpgroupSize + kWarpSize;  // the last warp copies
inline constexpr int kWeightTile = kFeatures * kDepth;
inline constexpr int kMostStages = kMostClusterSteps;
// Rows of a group. Each warp of a warpgroup has the group's sums of 16 features. A lane has 16
// bytes of them: two rows of one feature and of the feature eight further on (MultiplyTiles).
inline constexpr int kGroupRows = 8;
inline constexpr int kGroupFloats = kGroupRows * kFeatures;

// x [num_rows, in_features], weight [padded_rows, in_features].
struct Maps {
  CUtensorMap x, weight;
};

struct Args {
  int num_rows;
  int total_steps;  // of kDepth input features
  int steps;        // of a block, at most: the last blocks of a cluster may have fewer
  int stages;       // of the ring of rows, at most steps
  int split;        // blocks of a cluster, which divide the input features of a tile
  int rows_shift;   // log2 of the rows that each block of a tile completes
};

struct Barriers {
  SharedBarrier weight[kMostClusterSteps];
  SharedBarrier full[kMostStages], empty[kMostStages];
  SharedBarrier sums;
};

// Bytes of the partial sums that a block gets: of its rows, or of the group that contains them.
template <int kRows>
__host__ __device__ constexpr int SumBytes(int split) {
  const int groups = kRows / split < kGroupRows ? 1 : kRows / split / kGroupRows;
  return split * groups * kGroupFloats * static_cast<int>(sizeof(float));
}

// A block's part of a tile.
template <typename T, int kRows, typename Output>
struct Block {
  static constexpr int kXTile = kRows * kDepth;
  // Groups of rows that a block completes at once, and its turns if it completes all groups of a
  // tile.
  static constexpr int kGroupsAtOnce = 2;
  static constexpr int kMostTurns = kRows / kGroupRows / kGroupsAtOnce;

  const Args& args;
  const Output& output;
  Barriers& barriers;
  T* weight;     // [steps][kFeatures, kDepth], swizzled
  T* x;          // [stages][kRows, kDepth], swizzled
  float4* sums;  // [split][groups()][warps][lanes]: partial sums, from each block of the tile

  int rank, first_feature, first_row;
  int num_steps;  // of this block
  // Rows of the tile whose sums are sent, at most kRows: whole groups of the rows of a product's
  // sums.
  int sent_rows;

  __device__ int rows() const { return 1 << args.rows_shift; }  // that this block completes
  __device__ int groups() const { return max(rows() / kGroupRows, 1); }  // that contain these rows
  // Bytes of the sums that all blocks of the cluster send to this one.
  __device__ int SentBytes() const {
    const int own_rows = min(max(sent_rows - rank * rows(), 0), rows());
    return args.split * own_rows * kFeatures * static_cast<int>(sizeof(float));
  }

  __device__ void CopyWeight(const CUtensorMap& map) const {
    const uint64_t policy = LeavesFirst();
    for (int step = 0; step < num_steps; ++step) {
      ArriveAndExpect(barriers.weight[step], kWeightTile * static_cast<int>(sizeof(T)));
      CopyWeightBox(weight + step * kWeightTile, map, (rank * args.steps + step) * kDepth,
                    first_feature, barriers.weight[step], policy);
    }
  }
  __device__ void CopyRows(const Maps& maps) const {
    int at = 0;
    uint32_t parity = 1;  // the first round waits for nothing
    for (int step = 0; step < num_steps; ++step) {
      WaitFor(barriers.empty[at], parity);
      ArriveAndExpect(barriers.full[at], kXTile * static_cast<int>(sizeof(T)));
      CopyBox(x + at * kXTile, maps.x, (rank * args.steps + step) * kDepth, first_row,
              barriers.full[at]);
      if (++at == args.stages) at = 0, parity ^= 1;
    }
  }

  // The block's part of the sums, features by rows, in the layout of MultiplyTiles.
  __device__ void Multiply(float (&c)[kRows / 2]) const {
    constexpr int kPartBytes = 16 * static_cast<int>(sizeof(T));
    const bool first_of_warp = threadIdx.x % kWarpSize == 0;
    int at = 0, before = 0;
    uint32_t parity = 0;
    KeepInOrder(c);
    for (int step = 0; step < num_steps; ++step) {
      WaitFor(barriers.weight[step], 0);
      WaitFor(barriers.full[at], parity);
      const uint64_t a = TileDescriptor(weight + step * kWeightTile);
      const uint64_t b = TileDescriptor(x + at * kXTile);
      StartProducts();
#pragma unroll
      for (int part = 0; part < kDepth / 16; ++part) {
        MultiplyTiles<T>(Further(a, part * kPartBytes), Further(b, part * kPartBytes), true, c);
      }
      CommitProducts();
      if (args.stages < num_steps && step > 0) {
        WaitForProducts<1>();
        if (first_of_warp) Arrive(barriers.empty[before]);
      }
      before = at;
      if (++at == args.stages) at = 0, parity ^= 1;
    }
    WaitForProducts<0>();
    KeepInOrder(c);
  }

  // Writes every row's sums where they are completed. If a tile has several blocks, that is the
  // block that completes the row.
  __device__ void SendSums(int warp, int lane, const float (&c)[kRows / 2]) const {
#pragma unroll
    for (int n = 0; n < kRows / kGroupRows; ++n) {
      if (n * kGroupRows >= sent_rows) break;
      const int row = n * kGroupRows + lane % 4 * 2;
      const int group = (row & (rows() - 1)) / kGroupRows;
      float4* const place =
          sums + ((rank * groups() + group) * kMultiplyWarps + warp) * kWarpSize + lane;
      const float4 own = {c[4 * n], c[4 * n + 1], c[4 * n + 2], c[4 * n + 3]};
      if (args.split == 1) {
        *place = own;
      } else {
        StoreToBlock(place, row >> args.rows_shift, own, barriers.sums);
      }
    }
  }
  __device__ void WaitForSums() const {
    if (args.split == 1) {
      SyncSome(1, kWarpgroupSize);
    } else {
      WaitFor(barriers.sums, 0);
    }
  }

  // Calls body(turn, place of the sums, row) for the pairs of rows that this thread completes. Each
  // pair has four features: two neighbours, and the two that are eight further on.
  template <typename Body>
  __device__ void ForPairs(int thread, Body body) const {
    const int lane = SumsLane(thread);
#pragma unroll
    for (int turn = 0; turn < kMostTurns; ++turn) {
      const int group = turn * kGroupsAtOnce + thread / (kWarpgroupSize / kGroupsAtOnce);
      const int row = (rank * rows() / kGroupRows + group) * kGroupRows + lane % 4 * 2;
      if (group < groups() && row >> args.rows_shift == rank && first_row + row < args.num_rows) {
        body(turn, (group * kMultiplyWarps + SumsWarp(thread)) * kWarpSize + lane, first_row + row);
      }
    }
  }
  // The warp and lane whose sums a thread completes, with those of the lane four further on.
  __device__ static int SumsWarp(int thread) { return thread / 16 % kMultiplyWarps; }
  __device__ static int SumsLane(int thread) { return thread % 16 / 4 * 8 + thread % 4; }

  // Adds up the sums of two neighbouring features of a pair of rows (c[0] and c[1], c[2] and c[3]),
  // and of the two features eight further on (`more`).
  __device__ void AddSums(int place, float (&c)[4], float (&more)[4]) const {
    for (int from = 0; from < args.split; ++from) {
      const float4* const part = sums + from * groups() * (kGroupFloats / 4) + place;
      const float4 first = part[0], second = part[4];
      c[0] += first.x, c[1] += first.y, c[2] += second.x, c[3] += second.y;
      more[0] += first.z, more[1] += first.w, more[2] += second.z, more[3] += second.w;
    }
  }

  // The work of the multiplying warps. get_rows() runs after WaitForEarlierKernels and before they
  // multiply. Other warps that call Run do only that.
  template <typename GetRows>
  __device__ void Run(int warp, int lane, GetRows get_rows) const {
    const int thread = warp * kWarpSize + lane;
    const bool multiplies = warp < kMultiplyWarps;
    const int feature = multiplies ? first_feature + SumsWarp(thread) * 16 + SumsLane(thread) / 4
                                   : std::numeric_limits<int>::max() / 2;
    const typename Output::Columns columns[2] = {output.MakeColumns(feature),
                                                 output.MakeColumns(feature + 8)};
    WaitForEarlierKernels();
    uint32_t rest[kMostTurns][2][2] = {};
    ForPairs(thread, [&](int turn, int /*place*/, int row) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if (columns[i / 2].count > 0 && row + i % 2 < args.num_rows) {
          rest[turn][i / 2][i % 2] = output.LoadRest(row + i % 2, columns[i / 2]);
        }
      }
    });
    get_rows();
    if (!multiplies) return;
    float c[kRows / 2] = {};
    Multiply(c);
    SendSums(warp, lane, c);
    WaitForSums();
    ForPairs(thread, [&](int turn, int place, int row) {
      float sum[2][4] = {};
      AddSums(place, sum[0], sum[1]);
#pragma unroll
      for (int p = 0; p < 2; ++p) {
        if (columns[p].count <= 0) continue;
        output.Activate(columns[p], sum[p]);
        output.Store(row, columns[p], rest[turn][p][0], sum[p][0], sum[p][2]);
        if (row + 1 >= args.num_rows) continue;
        output.Store(row + 1, columns[p], rest[turn][p][1], sum[p][1], sum[p][3]);
      }
    });
  }
};

// Grid: (blocks of a cluster, tiles of features, tiles of rows).
template <typename T, int kRows, typename Output>
__global__ void __launch_bounds__(kThreads)
    ClusterProductKernel(const __grid_constant__ Maps maps, Args args, Output output) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  // All of a block's shared memory, so that it starts at the alignment of the tiles.
  extern __shared__ __align__(kSwizzledAlignment) unsigned char memory[];
  T* const weight = reinterpret_cast<T*>(memory);
  const int warp = __shfl_sync(kFullMask, static_cast<int>(threadIdx.x) / kWarpSize, 0);
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  using ThisBlock = Block<T, kRows, Output>;
  T* const x = weight + args.steps * kWeightTile;
  const int rank = static_cast<int>(blockIdx.x);
  const int first_row = static_cast<int>(blockIdx.z) * kRows;
  auto* const sums = reinterpret_cast<float4*>(x + args.stages * ThisBlock::kXTile);
  auto& barriers = *reinterpret_cast<Barriers*>(reinterpret_cast<unsigned char*>(sums) +
                                                SumBytes<kRows>(args.split));
  const ThisBlock block = {
      args,
      output,
      barriers,
      weight,
      x,
      sums,
      rank,
      static_cast<int>(blockIdx.y) * kFeatures,
      first_row,
      min(max(args.total_steps - rank * args.steps, 0), args.steps),
      min((args.num_rows - first_row + kGroupRows - 1) / kGroupRows * kGroupRows, kRows)};
  const bool copies = warp == kMultiplyWarps && lane == 0;
  if (copies) {
    PrefetchMap(maps.weight);
    PrefetchMap(maps.x);
    for (int i = 0; i < args.steps; ++i) InitBarrier(barriers.weight[i], 1);
    for (int i = 0; i < args.stages; ++i) {
      InitBarrier(barriers.full[i], 1);
      InitBarrier(barriers.empty[i], kMultiplyWarps);
    }
    InitBarrier(barriers.sums, 1);
    PublishBarriers();
    ArriveAndExpect(barriers.sums, block.SentBytes());
    block.CopyWeight(maps.weight);
  }
  // From here on the other blocks, and the block's own warps, see its barriers initialised.
  __syncwarp();
  ClusterArrive();
  ClusterWait();
  if (warp < kMultiplyWarps) {
    block.Run(warp, lane, [] {});
  } else {
    WaitForEarlierKernels();
    if (copies) block.CopyRows(maps);
  }
#endif
}

}  // namespace beamline::cuda::cluster_product
