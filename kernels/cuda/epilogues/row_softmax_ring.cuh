// Softmax of long rows of 16-bit elements on GPUs with clusters and bulk copies: a row lies in the
// shared memory of a block or of a cluster of blocks, and the rows after it are on their way there
// while it is computed. Read once, written once.
#pragma once

#include <cstdint>
#include <type_traits>

#include "base/math.h"
#include "kernels/cuda/device/hopper.cuh"
#include "kernels/cuda/device/thread_block_cluster.cuh"
#include "kernels/cuda/epilogues/row_softmax_math.cuh"

namespace beamline::cuda {

inline constexpr int kUnitBytes = 16;  // what is copied, and loaded and stored by a thread
inline constexpr int kMostSoftmaxStages = 8;

// kGroups groups of kThreads threads in a block compute a row each, with the same group of the
// other blocks of a cluster of kBlocks. A thread holds kUnits units of 16 bytes.
template <int kNumGroups, int kGroupThreads, int kThreadUnits, int kClusterBlocks>
struct SoftmaxShape {
  static constexpr int kUnits = kThreadUnits;
  static constexpr int kGroups = kNumGroups;
  static constexpr int kThreads = kGroupThreads;
  static constexpr int kWarps = kThreads / kWarpSize;
  static constexpr int kBlocks = kClusterBlocks;
};

// Stages of a group and bytes of one, a multiple of 128: a block's part of a row.
struct SoftmaxRing {
  int num_stages;
  int stage_bytes;
};

// A row in units of 16 bytes, and which of them are a block's. Units that are the row's alone are
// the blocks' in equal parts; elements before them are the first block's, those after them the last
// one's: edges, one a thread. A unit of edges has a neighbour's elements too.
struct SoftmaxSpan {
  const char* units;              // where unit 0 lies
  int first_element;              // within unit 0
  int end_element;                // counted from the beginning of unit 0
  int begin, count;               // the block's units without edges
  int copy_begin, copy_end;       // its units that are copied
  int head_edges, tail_edges;     // its own
  bool head_copied, tail_copied;  // else an edge's unit is not within the tensor

  template <typename T>
  __device__ static SoftmaxSpan Of(const SoftmaxArgs<T>& args, int64_t row, int rank, int blocks) {
    constexpr int kSize = kVecSize<T>;
    const T* const x = args.x + row * args.x_stride;
    const auto address = reinterpret_cast<uintptr_t>(x);
    const int past = static_cast<int>(address % kUnitBytes);
    SoftmaxSpan span;
    span.units = reinterpret_cast<const char*>(address - past);
    span.first_element = past / static_cast<int>(sizeof(T));
    span.end_element = span.first_element + static_cast<int>(args.width);
    const int first = past > 0 ? 1 : 0, last = span.end_element / kSize;
    const int part = CeilDiv(last - first, blocks);
    span.begin = min(first + rank * part, last);
    span.count = min(part, last - span.begin);
    span.copy_begin = span.begin, span.copy_end = span.begin + span.count;
    span.head_edges = rank == 0 && past > 0 ? kSize - span.first_element : 0;
    span.tail_edges = rank == blocks - 1 ? span.end_element % kSize : 0;
    span.head_copied = span.head_edges > 0 && span.units >= reinterpret_cast<const char*>(args.x);
    const T* const end = args.x + (args.num_rows - 1) * args.x_stride + args.width;
    span.tail_copied = span.tail_edges > 0 && span.units + (int64_t{last} + 1) * kUnitBytes <=
                                                  reinterpret_cast<const char*>(end);
    if (span.head_copied) span.copy_begin = 0;
    if (span.tail_copied) span.copy_end = last + 1;
    return span;
  }
  // The place in a stage of a unit. There is room for the one before the block's.
  __device__ int PlaceOf(int unit) const { return unit - begin + 1; }
  // The element that is a thread's edge, -1 where it has none.
  __device__ int EdgeOf(int thread) const {
    if (thread < head_edges) return first_element + thread;
    if (thread < head_edges + tail_edges) return end_element - tail_edges + thread - head_edges;
    return -1;
  }
};

template <typename T>
__device__ inline float GreatestOf(const int4& unit, float greatest) {
  if constexpr (sizeof(T) == 4) {
    const auto& x = reinterpret_cast<const float(&)[4]>(unit);
    return fmaxf(greatest, fmaxf(fmaxf(x[0], x[1]), fmaxf(x[2], x[3])));
  } else {
    using Pair = std::conditional_t<std::is_same_v<T, __half>, __half2, __nv_bfloat162>;
    const auto& x = reinterpret_cast<const Pair(&)[4]>(unit);
    const Pair pair = __hmax2(__hmax2(x[0], x[1]), __hmax2(x[2], x[3]));
    return fmaxf(greatest, fmaxf(ToFloat(pair.x), ToFloat(pair.y)));
  }
}

// One group of threads of a block and its ring of stages.
template <typename T, typename S>
struct SoftmaxGroup {
  static constexpr int kSize = kVecSize<T>;
  struct Shared {
    SharedBarrier full[kMostSoftmaxStages];
    SharedBarrier exchanged[2];
    SoftmaxPartial of_warps[2][S::kWarps];
    alignas(8) SoftmaxPartial of_blocks[2][S::kBlocks];
  };

  const SoftmaxArgs<T>& args;
  const SoftmaxRing& ring;
  Shared& shared;
  char* const stages;
  const int group, rank, thread;
  const int64_t first_row, row_step;
  int stage = 0;        // that the row lies in
  uint32_t parity = 0;  // of the rounds through the stages
  uint32_t num_done = 0;

  __device__ char* Stage(int i) const { return stages + i * ring.stage_bytes; }
  __device__ SoftmaxSpan SpanOf(int64_t row) const {
    return SoftmaxSpan::Of(args, row, rank, S::kBlocks);
  }

  // The thread that starts copies: of the last warp, because the first one exchanges sums.
  __device__ bool Copies() const { return thread == S::kThreads - kWarpSize; }
  // Starts the copy of this block's part of a row.
  __device__ void Load(int64_t row, int to) const {
    if (row >= args.num_rows) return;
    const SoftmaxSpan span = SpanOf(row);
    const int bytes = (span.copy_end - span.copy_begin) * kUnitBytes;
    if (bytes == 0) {
      Arrive(shared.full[to]);
      return;
    }
    ArriveAndExpect(shared.full[to], bytes);
    CopyBytes(Stage(to) + span.PlaceOf(span.copy_begin) * kUnitBytes,
              span.units + int64_t{span.copy_begin} * kUnitBytes, bytes, shared.full[to]);
  }

  // The maximum and sum of the whole row, from this thread's.
  __device__ SoftmaxPartial Merge(SoftmaxPartial partial, int64_t row) const {
    const int lane = thread % kWarpSize;
    const uint32_t odd = num_done % 2;  // of two buffers
    partial = WarpMerge(partial);
    if (lane == 0) shared.of_warps[odd][thread / kWarpSize] = partial;
    SyncSome(1 + group, S::kThreads);
    // All threads have left the row before: its stage is free.
    if (num_done > 0 && Copies()) {
      Load(row + (ring.num_stages - 1) * row_step, (stage == 0 ? ring.num_stages : stage) - 1);
    }
    const SoftmaxPartial none = {MinusInfinity(), 0.0f};
    partial = WarpMerge(lane < S::kWarps ? shared.of_warps[odd][lane] : none);
    if constexpr (S::kBlocks > 1) {
      SharedBarrier& exchanged = shared.exchanged[odd];
      if (thread == 0) ArriveAndExpect(exchanged, S::kBlocks * sizeof(SoftmaxPartial));
      if (thread < S::kBlocks) {
        StoreToBlock(&shared.of_blocks[odd][rank], thread, partial.maximum, partial.sum, exchanged);
      }
      WaitFor(exchanged, num_done / 2 % 2);
      partial = WarpMerge(lane < S::kBlocks ? shared.of_blocks[odd][lane] : none);
    }
    return partial;
  }

  // A thread's edge of a row; -inf where it has none.
  __device__ float Edge(const SoftmaxSpan& span, int64_t row, int edge) const {
    if (edge < 0) return MinusInfinity();
    const bool copied = edge < kSize ? span.head_copied : span.tail_copied;
    if (!copied) return ToFloat(args.x[row * args.x_stride + edge - span.first_element]);
    const auto* const elements = reinterpret_cast<const T*>(Stage(stage));
    return ToFloat(elements[span.PlaceOf(edge / kSize) * kSize + edge % kSize]);
  }

  __device__ void Compute(int64_t row) const {
    const SoftmaxSpan span = SpanOf(row);
    const int edge = span.EdgeOf(thread);
    const auto* const units =
        reinterpret_cast<const int4*>(Stage(stage)) + span.PlaceOf(span.begin);
    WaitFor(shared.full[stage], parity);
    float edge_value = Edge(span, row, edge);
    float maximum = fmaxf(MinusInfinity(), edge_value);  // NaN does not count here
#pragma unroll
    for (int u = 0; u < S::kUnits; ++u) {
      const int unit = thread + u * S::kThreads;
      if (unit < span.count) maximum = GreatestOf<T>(units[unit], maximum);
    }
    // The exponentials are of x minus this thread's maximum. One factor takes them to the row's.
    const float base = SoftmaxBase(maximum);
    edge_value = SoftmaxPower(edge_value, base);
    float values[S::kUnits][kSize];
    float sums[2] = {edge_value, 0.0f};
#pragma unroll
    for (int u = 0; u < S::kUnits; ++u) {
      const int unit = thread + u * S::kThreads;
      if (unit >= span.count) continue;
      LoadFloats<kSize>(reinterpret_cast<const T*>(units + unit), values[u]);
#pragma unroll
      for (int j = 0; j < kSize; ++j) {
        values[u][j] = SoftmaxPower(values[u][j], base);
        sums[j % 2] += values[u][j];
      }
    }
    const SoftmaxPartial whole = Merge({maximum, sums[0] + sums[1]}, row);

    const float scale = __fdividef(SoftmaxPower(maximum, SoftmaxBase(whole.maximum)), whole.sum);
    T* const y = args.y + row * args.y_stride - span.first_element;  // of unit 0
    auto* const out = reinterpret_cast<int4*>(y + int64_t{span.begin} * kSize);
#pragma unroll
    for (int u = 0; u < S::kUnits; ++u) {
      const int unit = thread + u * S::kThreads;
      if (unit >= span.count) continue;
      Vec<T, kSize> scaled;
#pragma unroll
      for (int j = 0; j < kSize; ++j) scaled.values[j] = FromFloat<T>(values[u][j] * scale);
      __stcs(out + unit, reinterpret_cast<const int4&>(scaled));
    }
    if (edge >= 0) y[edge] = FromFloat<T>(edge_value * scale);
  }

  __device__ void Run() {
    if (Copies()) {
      for (int i = 0; i < ring.num_stages; ++i) Load(first_row + i * row_step, i);
    }
    for (int64_t row = first_row; row < args.num_rows; row += row_step) {
      Compute(row);
      ++num_done;
      if (++stage == ring.num_stages) stage = 0, parity ^= 1;
    }
  }
};

// Grid: as many clusters as run at once. Bound by memory: x read once, y written once.
template <typename T, typename S>
__global__ void __launch_bounds__(S::kGroups* S::kThreads, 1)
    RingSoftmaxKernel(const __grid_constant__ SoftmaxArgs<T> args,
                      const __grid_constant__ SoftmaxRing ring) {
#if __CUDA_ARCH__ >= 900
  using Group = SoftmaxGroup<T, S>;
  extern __shared__ __align__(128) char stages[];
  __shared__ typename Group::Shared shared[S::kGroups];
  if (threadIdx.x == 0) {
    for (auto& group : shared) {
      for (int i = 0; i < ring.num_stages; ++i) InitBarrier(group.full[i], 1);
      for (SharedBarrier& barrier : group.exchanged) InitBarrier(barrier, 1);
    }
    PublishBarriers();
  }
  __syncthreads();
  if constexpr (S::kBlocks > 1) {
    ClusterArrive();
    ClusterWait();
  }
  const int group = static_cast<int>(threadIdx.x) / S::kThreads;
  const int64_t cluster = blockIdx.x / S::kBlocks, num_clusters = gridDim.x / S::kBlocks;
  // Groups of one block compute rows that are far apart, so that each block has as many.
  Group own = {args,
               ring,
               shared[group],
               stages + group * ring.num_stages * ring.stage_bytes,
               group,
               static_cast<int>(blockIdx.x % S::kBlocks),
               static_cast<int>(threadIdx.x) % S::kThreads,
               group * num_clusters + cluster,
               num_clusters * S::kGroups};
  own.Run();
  // No block may exit while another one writes to its shared memory.
  if constexpr (S::kBlocks > 1) {
    ClusterArrive();
    ClusterWait();
  }
#endif
}

}  // namespace beamline::cuda
