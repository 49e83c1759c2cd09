// Softmax of long rows on GPUs with clusters and bulk copies. A row is in the shared memory of a
// block or of a cluster of blocks, and the rows after it are copied there while it is computed.
// Results replace the elements in shared memory, and bulk copies store them, so that no thread
// waits for a store. Each row is read once and written once.
#pragma once

#include <cstdint>

#include "base/math.h"
#include "kernels/cuda/device/hopper.cuh"
#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/device/thread_block_cluster.cuh"
#include "kernels/cuda/epilogues/row_softmax_math.cuh"

namespace beamline::cuda {

inline constexpr int kMostSoftmaxStages = 24;

// A block has kGroups groups of kThreads threads. The groups compute a row each, in turn, together
// with the same group of the other blocks of a cluster of kBlocks. A thread holds kUnits units. One
// more warp starts the copies.
template <int kNumGroups, int kGroupThreads, int kThreadUnits, int kClusterBlocks>
struct RingShape {
  static constexpr int kUnits = kThreadUnits;
  static constexpr int kGroups = kNumGroups;
  static constexpr int kThreads = kGroupThreads;
  static constexpr int kWarps = kThreads / kWarpSize;
  static constexpr int kBlocks = kClusterBlocks;
  static constexpr int kBlockThreads = kGroups * kThreads + kWarpSize;
};

// The stages of a block, which its parts of rows take in turn. A stage has `part` units, a multiple
// of kLineUnits, and a line for edges.
struct SoftmaxRing {
  int num_stages;
  int part;
  __host__ __device__ int stage_bytes() const { return part * kUnitBytes + kLineBytes; }
};

// A row in units, counted from the line in which it starts, and the units of it that a block has.
// Elements before the row's first whole unit belong to the first block, those after its last whole
// unit to the last block. They are edges, one per thread. A unit of edges also has elements of a
// neighbouring row.
struct SoftmaxSpan {
  const char* line;               // address of unit 0
  int first_element;              // counted from the start of unit 0
  int end_element;                // counted from the start of unit 0
  int origin;                     // the first unit of a stage
  int begin, end;                 // the block's units without edges
  int copy_begin, copy_end;       // its units that are copied
  int head_edges, tail_edges;     // of this block
  bool head_copied, tail_copied;  // otherwise an edge's unit is not within the tensor

  template <typename T>
  __device__ static SoftmaxSpan Of(const SoftmaxArgs<T>& args, int64_t row, int rank, int blocks,
                                   int part) {
    constexpr int kSize = kVecSize<T>;
    const auto address = reinterpret_cast<uintptr_t>(args.x + row * args.x_stride);
    const int past = static_cast<int>(address % kLineBytes);
    SoftmaxSpan span;
    span.line = reinterpret_cast<const char*>(address - past);
    span.first_element = past / static_cast<int>(sizeof(T));
    span.end_element = span.first_element + static_cast<int>(args.width);
    const int first = CeilDiv(past, kUnitBytes), last = span.end_element / kSize;
    span.origin = rank * part;
    span.begin = min(max(span.origin, first), last);
    span.end = min(max(span.origin + part, first), last);
    span.copy_begin = span.begin, span.copy_end = span.end;
    span.head_edges = rank == 0 ? first * kSize - span.first_element : 0;
    span.tail_edges = rank == blocks - 1 ? span.end_element % kSize : 0;
    const auto* const tensor = reinterpret_cast<const char*>(args.x);
    const auto* const tensor_end =
        reinterpret_cast<const char*>(args.x + (args.num_rows - 1) * args.x_stride + args.width);
    span.head_copied = span.head_edges > 0 && span.AddressOf(first - 1) >= tensor;
    span.tail_copied = span.tail_edges > 0 && span.AddressOf(last + 1) <= tensor_end;
    if (span.head_copied) span.copy_begin = first - 1;
    if (span.tail_copied) span.copy_end = last + 1;
    return span;
  }
  __device__ const char* AddressOf(int unit) const { return line + int64_t{unit} * kUnitBytes; }
  // The element that is a thread's edge, or -1.
  __device__ int EdgeOf(int thread) const {
    if (thread < head_edges) return first_element + thread;
    if (thread < head_edges + tail_edges) return end_element - tail_edges + thread - head_edges;
    return -1;
  }
};

// Starts the copy of consecutive bytes to global memory, as a group of its own.
__device__ inline void StoreBytes(void* to, const void* from, int bytes) {
  asm volatile(
      "cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;\n"
      "cp.async.bulk.commit_group;\n" ::"l"(to),
      "r"(SharedAddress(from)), "r"(bytes)
      : "memory");
}

template <typename S>
struct RingShared {
  struct Group {
    SharedBarrier exchanged[2];
    SoftmaxPartial of_warps[2][S::kWarps];
    alignas(8) SoftmaxPartial of_blocks[2][S::kBlocks];
  };
  SharedBarrier full[kMostSoftmaxStages], empty[kMostSoftmaxStages];
  Group groups[S::kGroups];
};

// The work of the thread that copies this block's parts of rows to the stages.
template <typename T, typename S>
__device__ void LoadRows(const SoftmaxArgs<T>& args, const SoftmaxRing& ring, RingShared<S>& shared,
                         char* stages, int rank, int64_t first_row, int64_t row_step) {
  int stage = 0;
  uint32_t parity = 1;  // the stages are empty at first
  for (int64_t row = first_row; row < args.num_rows; row += row_step) {
    const SoftmaxSpan span = SoftmaxSpan::Of(args, row, rank, S::kBlocks, ring.part);
    const int bytes = (span.copy_end - span.copy_begin) * kUnitBytes;
    WaitFor(shared.empty[stage], parity);
    if (bytes == 0) {
      Arrive(shared.full[stage]);
    } else {
      char* const to = stages + stage * ring.stage_bytes();
      ArriveAndExpect(shared.full[stage], bytes);
      CopyBytes(to + (span.copy_begin - span.origin) * kUnitBytes, span.AddressOf(span.copy_begin),
                bytes, shared.full[stage]);
    }
    if (++stage == ring.num_stages) stage = 0, parity ^= 1;
  }
}

// One group of threads of a block.
template <typename T, typename S>
struct RingGroup {
  static constexpr int kSize = kVecSize<T>;

  const SoftmaxArgs<T>& args;
  const SoftmaxRing& ring;
  RingShared<S>& shared;
  char* const stages;
  const int group, rank, warp, lane;
  int stage;        // of the current row
  uint32_t parity;  // of the rounds through the stages
  uint32_t num_done = 0;
  int stored = -1;  // the stage whose results this warp has stored last

  // The maximum and sum of the whole row, from those of its threads.
  __device__ SoftmaxPartial Merge(SoftmaxPartial partial) {
    auto& own = shared.groups[group];
    const uint32_t odd = num_done % 2;  // of two buffers
    const SoftmaxPartial none = {MinusInfinity(), 0.0f};
    partial = WarpMerge(partial);
    if (lane == 0) own.of_warps[odd][warp] = partial;
    SyncSome(1 + group, S::kThreads);
    Release();  // after all threads' writes to that stage
    partial = WarpMerge(lane < S::kWarps ? own.of_warps[odd][lane] : none);
    if constexpr (S::kBlocks > 1) {
      SharedBarrier& exchanged = own.exchanged[odd];
      if (warp == 0 && lane == 0) ArriveAndExpect(exchanged, S::kBlocks * sizeof(SoftmaxPartial));
      if (warp == 0 && lane < S::kBlocks) {
        StoreToBlock(&own.of_blocks[odd][rank], lane, partial.maximum, partial.sum, exchanged);
      }
      WaitFor(exchanged, num_done / 2 % 2);
      partial = WarpMerge(lane < S::kBlocks ? own.of_blocks[odd][lane] : none);
    }
    return partial;
  }

  // This thread's edge of a row, from a stage or from memory; -infinity if it has none.
  __device__ float Edge(const SoftmaxSpan& span, const char* at, int64_t row, int edge) const {
    if (edge < 0) return MinusInfinity();
    const bool head = warp * kWarpSize + lane < span.head_edges;
    if (!(head ? span.head_copied : span.tail_copied)) {
      return ToFloat(args.x[row * args.x_stride + edge - span.first_element]);
    }
    return ToFloat(reinterpret_cast<const T*>(at)[edge - span.origin * kSize]);
  }

  // Releases the stage before this one, when its bulk copies have been read. Every lane arrives for
  // its own accesses, because racecheck only follows those.
  __device__ void Release() {
    if (stored < 0) return;
    if (lane == 0) WaitForStoresToRead<0>();
    __syncwarp();
    Arrive(shared.empty[stored]);
  }

  // The index in a stage at which the u-th units of this warp start.
  __device__ int PlaceOf(int u) const { return (warp * S::kUnits + u) * kWarpSize; }

  // The sum of exp(x - base). The powers replace 4-byte elements. Units from `end` on are left out:
  // their branches keep the compiler from unpacking all units at once.
  __device__ float Sum(SoftmaxUnit (&units)[S::kUnits], int end, float base, float sum) const {
    float sums[4] = {sum, 0.0f, 0.0f, 0.0f};
#pragma unroll
    for (int u = 0; u < S::kUnits; ++u) {
      if (PlaceOf(u) >= end) continue;
      float own[kSize];
      Unpack<T>(units[u], own);
#pragma unroll
      for (int j = 0; j < kSize; ++j) {
        own[j] = SoftmaxPower(own[j], base);
        sums[j % 4] += own[j];
      }
      if constexpr (sizeof(T) == 4) units[u] = Packed<T>(own);
    }
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
  }

  __device__ void Compute(int64_t row) {
    const SoftmaxSpan span = SoftmaxSpan::Of(args, row, rank, S::kBlocks, ring.part);
    char* const at = stages + stage * ring.stage_bytes();
    auto* const in_stage = reinterpret_cast<SoftmaxUnit*>(at);
    const int edge = span.EdgeOf(warp * kWarpSize + lane);
    const int begin = span.begin - span.origin, end = span.end - span.origin;
    const auto has = [&](int place) { return place >= begin && place < end; };
    WaitFor(shared.full[stage], parity);
    SoftmaxUnit units[S::kUnits];
#pragma unroll
    for (int u = 0; u < S::kUnits; ++u) {
      const int place = PlaceOf(u) + lane;
      units[u] = has(place) ? in_stage[place] : EmptyUnit<T>();
    }
    const float edge_value = Edge(span, at, row, edge);
    // The exponentials are of x minus this thread's maximum. A factor converts them to the row's
    // maximum.
    const float maximum = fmaxf(GreatestOf<T>(units), edge_value);
    const float base = SoftmaxBase(maximum);
    const float edge_power = SoftmaxPower(edge_value, base);
    const float sum = Sum(units, end, base, edge_power);
    const SoftmaxPartial whole = Merge({maximum, sum});

    const float row_base = SoftmaxBase(whole.maximum);
    const float scale = __fdividef(SoftmaxPower(maximum, row_base), whole.sum);
    const float shift = -__log2f(whole.sum);
#pragma unroll
    for (int u = 0; u < S::kUnits; ++u) {
      const int place = PlaceOf(u) + lane;
      if (PlaceOf(u) >= end) continue;
      float own[kSize];
      Unpack<T>(units[u], own);
#pragma unroll
      for (int j = 0; j < kSize; ++j) {
        own[j] = sizeof(T) == 2 ? SoftmaxPowerOfTwo(fmaf(own[j] - row_base, kLog2E, shift))
                                : own[j] * scale;
      }
      if (has(place)) in_stage[place] = Packed<T>(own);
    }
    PublishToCopies();
    __syncwarp();
    T* const y = args.y + row * args.y_stride - span.first_element;  // position of unit 0
    if (lane == 0) {
      const int from = max(PlaceOf(0), begin), to = min(PlaceOf(S::kUnits), end);
      if (from < to) {
        StoreBytes(y + int64_t{span.origin + from} * kSize, in_stage + from,
                   (to - from) * kUnitBytes);
      }
    }
    stored = stage;
    if (edge >= 0) y[edge] = FromFloat<T>(edge_power * scale);
  }

  __device__ void Run(int64_t first_row, int64_t row_step) {
    for (int64_t row = first_row + group * row_step; row < args.num_rows;
         row += S::kGroups * row_step) {
      Compute(row);
      ++num_done;
      stage += S::kGroups;
      if (stage >= ring.num_stages) stage -= ring.num_stages, parity ^= 1;
    }
    if (lane == 0) WaitForStoresToRead<0>();
  }
};

// REQUIRES: ring.num_stages > kGroups, because a stage is released in the group's next row. Grid:
// as many clusters as run at once. Bound by memory: x is read once, y is written once.
template <typename T, typename S>
__global__ void __launch_bounds__(S::kBlockThreads, 1)
    RingSoftmaxKernel(const __grid_constant__ SoftmaxArgs<T> args,
                      const __grid_constant__ SoftmaxRing ring) {
#if __CUDA_ARCH__ >= 900
  extern __shared__ __align__(kLineBytes) char stages[];
  __shared__ RingShared<S> shared;
  const int warp = static_cast<int>(threadIdx.x) / kWarpSize;
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  if (threadIdx.x == 0) {
    for (int i = 0; i < ring.num_stages; ++i) {
      InitBarrier(shared.full[i], 1);
      InitBarrier(shared.empty[i], S::kThreads);
    }
    for (auto& group : shared.groups) {
      for (SharedBarrier& barrier : group.exchanged) InitBarrier(barrier, 1);
    }
    PublishBarriers();
  }
  __syncthreads();
  if constexpr (S::kBlocks > 1) {
    ClusterArrive();
    ClusterWait();
  }
  WaitForEarlierKernels();
  const int rank = static_cast<int>(blockIdx.x % S::kBlocks);
  const int64_t cluster = blockIdx.x / S::kBlocks, num_clusters = gridDim.x / S::kBlocks;
  const int group = warp / S::kWarps;
  if (group < S::kGroups) {
    RingGroup<T, S> own = {args, ring,  shared, stages, group, rank, warp % S::kWarps,
                           lane, group, 0};
    own.Run(cluster, num_clusters);
  } else if (lane == 0) {
    LoadRows(args, ring, shared, stages, rank, cluster, num_clusters);
  }
  __syncwarp();
  // No block may exit while another one writes to its shared memory.
  if constexpr (S::kBlocks > 1) {
    ClusterArrive();
    ClusterWait();
  }
#endif
}

}  // namespace beamline::cuda
