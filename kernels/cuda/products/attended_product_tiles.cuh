// The device side of attended_product.cu: attention of a tile's rows, one head at a time, into the
// tile of rows that a product multiplies.
#pragma once

#include "kernels/cuda/products/cluster_product_tiles.cuh"

namespace beamline::cuda::attended_product {

using cluster_product::kDepth;
using cluster_product::kFeatures;
using cluster_product::kMultiplyWarps;
using cluster_product::kWeightTile;

inline constexpr int kTaskRows = 16;                     // of a warp at a time
inline constexpr int kMostHeads = 4;                     // of a block
inline constexpr int kAttendWarps = 2 * kMultiplyWarps;  // the first half multiplies afterwards
inline constexpr int kThreads = (kAttendWarps + 1) * kWarpSize;  // the last warp copies

// Queries, keys and values [num_rows, heads * kDepth], weight [padded_rows, heads * kDepth].
struct Maps {
  CUtensorMap query, key, value, weight;
};

struct Args {
  cluster_product::Args product;
  int key_tiles;   // of kRows keys
  int group_size;  // query heads of a key-value head
  float log2_factor;
};

// What attention gives, beside the product.
template <typename T>
struct Attended {
  T* data;  // [num_rows, heads * kDepth]
  int64_t stride;
};

struct Barriers {
  cluster_product::Barriers product;
  SharedBarrier heads[kMostHeads];
};

// A head is a step of the product: as many columns.
template <typename T, int kRows>
struct Attention {
  static constexpr int kTile = kRows * kDepth;
  static constexpr int kTasks = kRows / kTaskRows;  // of a head
  static constexpr int kKeys = kRows / 8;           // of a tile, in eights
  static constexpr int kDims = kDepth / 8;

  const Args& args;
  Barriers& barriers;
  T* rows;    // [steps][kRows, kDepth], permuted: queries, then what attention makes of them
  T* keys;    // [steps][key_tiles][kRows, kDepth], permuted
  T* values;  // as keys
  int first_head, num_heads, first_row;
  Attended<T> output;  // null: other blocks write it

  // By a lane for each head.
  __device__ void Copy(const Maps& maps, int head) const {
    SharedBarrier& barrier = barriers.heads[head];
    const int column = (first_head + head) * kDepth;
    const int key_column = (first_head + head) / args.group_size * kDepth;
    ArriveAndExpect(barrier, (2 * args.key_tiles + 1) * kTile * static_cast<int>(sizeof(T)));
    CopyBox(rows + head * kTile, maps.query, column, first_row, barrier);
    for (int tile = 0; tile < args.key_tiles; ++tile) {
      const int place = (head * args.key_tiles + tile) * kTile;
      CopyBox(keys + place, maps.key, key_column, tile * kRows, barrier);
      CopyBox(values + place, maps.value, key_column, tile * kRows, barrier);
    }
  }

  // What a warp does of all heads' rows.
  __device__ void Run(int warp, int lane) const {
    for (int task = warp; task < num_heads * kTasks; task += kAttendWarps) {
      const int head = task / kTasks, row = task % kTasks * kTaskRows;
      WaitFor(barriers.heads[head], 0);
      Attend(head, row, lane);
      PublishToCopies();  // wgmma reads as they do
      __syncwarp();
      if (lane == 0) Arrive(barriers.product.full[head]);
      if (output.data != nullptr) Store(head, row, lane);
    }
  }

 private:
  // Copies what a task has computed to the output.
  __device__ void Store(int head, int row, int lane) const {
    constexpr int kChunk = 16 / static_cast<int>(sizeof(T)), kChunks = kDepth / kChunk;
    const SwizzledTile<T, kDepth> tile = {rows + head * kTile};
    for (int i = lane; i < kTaskRows * kChunks; i += kWarpSize) {
      const int at = row + i / kChunks, chunk = i % kChunks;
      if (first_row + at >= args.product.num_rows) break;
      *reinterpret_cast<uint4*>(output.data + (first_row + at) * output.stride +
                                (first_head + head) * kDepth + chunk * kChunk) =
          *reinterpret_cast<const uint4*>(tile.Chunk(at, chunk));
    }
  }

  // A lane has two rows, lane / 4 and eight below, in all that follows.
  __device__ void Attend(int head, int row, int lane) const {
    const SwizzledTile<T, kDepth> tile = {rows + head * kTile};
    uint32_t query[kDepth / 16][4];
#pragma unroll
    for (int k = 0; k < kDepth / 16; ++k) {
      LoadMatrices(tile.Chunk(row + lane % 16, 2 * k + lane / 16), query[k]);
    }
    float sums[kDims][4] = {};
    float most[2] = {-INFINITY, -INFINITY}, total[2] = {};
    for (int key_tile = 0; key_tile < args.key_tiles; ++key_tile) {
      const int place = (head * args.key_tiles + key_tile) * kTile;
      float scores[kKeys][4] = {};
      Score(keys + place, lane, query, scores);
      const int num_keys = args.product.num_rows - key_tile * kRows;
      uint32_t weights[kKeys][2];
      Weigh(num_keys, lane, scores, most, total, sums, weights);
      AddValues(values + place, lane, weights, sums);
    }
    float scale[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      total[i] += __shfl_xor_sync(kFullMask, total[i], 1);
      total[i] += __shfl_xor_sync(kFullMask, total[i], 2);
      scale[i] = 1.0f / total[i];
    }
    __syncwarp();  // all lanes have read their queries, which lie there
#pragma unroll
    for (int n = 0; n < kDims; ++n) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        T* const to = tile.Chunk(row + lane / 4 + 8 * i, n) + lane % 4 * 2;
        *reinterpret_cast<uint32_t*>(to) =
            PackPair<T>(sums[n][2 * i] * scale[i], sums[n][2 * i + 1] * scale[i]);
      }
    }
  }

  __device__ static void Score(T* key_tile, int lane, const uint32_t (&query)[kDepth / 16][4],
                               float (&scores)[kKeys][4]) {
    const SwizzledTile<T, kDepth> tile = {key_tile};
#pragma unroll
    for (int k = 0; k < kDepth / 16; ++k) {
#pragma unroll
      for (int n = 0; n < kKeys; n += 2) {
        uint32_t key[4];
        LoadMatrices(tile.Chunk(8 * n + lane % 8 + lane / 16 * 8, 2 * k + lane / 8 % 2), key);
        MultiplyAdd<T>(query[k], key[0], key[1], scores[n]);
        MultiplyAdd<T>(query[k], key[2], key[3], scores[n + 1]);
      }
    }
  }

  // Powers of two of the scores, rounded to T as pairs; what was summed before is scaled to the new
  // maximum.
  __device__ void Weigh(int num_keys, int lane, float (&scores)[kKeys][4], float (&most)[2],
                        float (&total)[2], float (&sums)[kDims][4],
                        uint32_t (&weights)[kKeys][2]) const {
    float greatest[2] = {most[0], most[1]}, shift[2];
#pragma unroll
    for (int n = 0; n < kKeys; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if (8 * n + lane % 4 * 2 + i % 2 >= num_keys) scores[n][i] = -INFINITY;
        greatest[i / 2] = fmaxf(greatest[i / 2], scores[n][i]);
      }
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      greatest[i] = fmaxf(greatest[i], __shfl_xor_sync(kFullMask, greatest[i], 1));
      greatest[i] = fmaxf(greatest[i], __shfl_xor_sync(kFullMask, greatest[i], 2));
      const float factor = PowerOfTwo((most[i] - greatest[i]) * args.log2_factor);
      most[i] = greatest[i];
      shift[i] = most[i] * args.log2_factor;
      total[i] *= factor;
#pragma unroll
      for (int n = 0; n < kDims; ++n) sums[n][2 * i] *= factor, sums[n][2 * i + 1] *= factor;
    }
#pragma unroll
    for (int n = 0; n < kKeys; ++n) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const float first = PowerOfTwo(fmaf(scores[n][2 * i], args.log2_factor, -shift[i]));
        const float second = PowerOfTwo(fmaf(scores[n][2 * i + 1], args.log2_factor, -shift[i]));
        total[i] += first + second;
        weights[n][i] = PackPair<T>(first, second);
      }
    }
  }

  __device__ static void AddValues(T* value_tile, int lane, const uint32_t (&weights)[kKeys][2],
                                   float (&sums)[kDims][4]) {
    const SwizzledTile<T, kDepth> tile = {value_tile};
#pragma unroll
    for (int k = 0; k < kKeys; k += 2) {
      const uint32_t a[4] = {weights[k][0], weights[k][1], weights[k + 1][0], weights[k + 1][1]};
#pragma unroll
      for (int n = 0; n < kDims; n += 2) {
        uint32_t value[4];
        LoadMatricesTransposed(tile.Chunk(8 * k + lane % 16, n + lane / 16), value);
        MultiplyAdd<T>(a, value[0], value[1], sums[n]);
        MultiplyAdd<T>(a, value[2], value[3], sums[n + 1]);
      }
    }
  }
};

// Grid: (blocks of a cluster, tiles of features, tiles of rows). Each tile of features computes
// attention anew: that takes less than its way through memory and another kernel's start.
template <typename T, int kRows, typename Output>
__global__ void __launch_bounds__(kThreads)
    AttendedProductKernel(const __grid_constant__ Maps maps, Args args, Output output,
                          Attended<T> attended) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  // All of a block's shared memory, so that it begins where the tiles must.
  extern __shared__ __align__(kSwizzledAlignment) unsigned char memory[];
  constexpr int kTile = kRows * kDepth;
  const cluster_product::Args& product = args.product;
  T* const weight = reinterpret_cast<T*>(memory);
  T* const rows = weight + product.steps * kWeightTile;
  T* const keys = rows + product.steps * kTile;
  T* const values = keys + product.steps * args.key_tiles * kTile;
  auto* const sums = reinterpret_cast<float4*>(values + product.steps * args.key_tiles * kTile);
  auto& barriers = *reinterpret_cast<Barriers*>(reinterpret_cast<unsigned char*>(sums) +
                                                cluster_product::SumBytes<kRows>(product.split));
  const int warp = __shfl_sync(kFullMask, static_cast<int>(threadIdx.x) / kWarpSize, 0);
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const int rank = static_cast<int>(blockIdx.x);
  const int first_row = static_cast<int>(blockIdx.z) * kRows;
  const int num_heads = min(max(product.total_steps - rank * product.steps, 0), product.steps);
  constexpr int kGroupRows = cluster_product::kGroupRows;
  const cluster_product::Block<T, kRows, Output> block = {
      product,
      output,
      barriers.product,
      weight,
      rows,
      sums,
      rank,
      static_cast<int>(blockIdx.y) * kFeatures,
      first_row,
      num_heads,
      min((product.num_rows - first_row + kGroupRows - 1) / kGroupRows * kGroupRows, kRows)};
  if (blockIdx.y > 0) attended.data = nullptr;
  const Attention<T, kRows> attention = {
      args, barriers, rows, keys, values, rank * product.steps, num_heads, first_row, attended};
  const bool copies = warp == kAttendWarps && lane == 0;
  if (copies) {
    for (const CUtensorMap* map : {&maps.weight, &maps.query, &maps.key, &maps.value}) {
      PrefetchMap(*map);
    }
    for (int i = 0; i < product.steps; ++i) {
      InitBarrier(barriers.product.weight[i], 1);
      InitBarrier(barriers.product.full[i], kRows / kTaskRows);
      InitBarrier(barriers.heads[i], 1);
    }
    InitBarrier(barriers.product.sums, 1);
    PublishBarriers();
    ArriveAndExpect(barriers.product.sums, block.SentBytes());
    block.CopyWeight(maps.weight);
  }
  // Other blocks find the barriers of this one initialised, and its own warps do.
  __syncwarp();
  ClusterArrive();
  ClusterWait();
  if (warp < kAttendWarps) {
    block.Run(warp, lane, [&] { attention.Run(warp, lane); });
  } else {
    WaitForEarlierKernels();
    if (lane < num_heads) attention.Copy(maps, lane);
  }
#endif
}

}  // namespace beamline::cuda::attended_product
