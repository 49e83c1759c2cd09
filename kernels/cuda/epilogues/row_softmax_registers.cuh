// Softmax of rows that stay in registers between the reduction and the output.
#pragma once

#include <cstdint>

#include "base/math.h"
#include "kernels/cuda/device/hopper.cuh"
#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/device/thread_block_cluster.cuh"
#include "kernels/cuda/epilogues/row_softmax_math.cuh"

namespace beamline::cuda {

inline constexpr int kLeastThreads = 128;  // of a block; narrow rows share one

// Merges the partials of a block's threads. Every thread gets the result.
template <int kThreads>
__device__ inline SoftmaxPartial BlockMerge(SoftmaxPartial partial,
                                            SoftmaxPartial (&partials)[kWarpSize]) {
  constexpr int kNumWarps = kThreads / kWarpSize;
  const int lane = threadIdx.x % kWarpSize;
  partial = WarpMerge(partial);
  if (lane == 0) partials[threadIdx.x / kWarpSize] = partial;
  __syncthreads();
  return WarpMerge(lane < kNumWarps ? partials[lane] : SoftmaxPartial{MinusInfinity(), 0.0f});
}

// What the blocks of a cluster send each other about a row.
template <int kCluster>
struct ClusterPartials {
  alignas(8) SoftmaxPartial of_blocks[kCluster];
  SharedBarrier told;
};

// Must come before any block sends to the others. Called when the kernel starts, so that no block
// waits for it.
template <int kCluster>
__device__ inline void StartClusterMerge(ClusterPartials<kCluster>& shared) {
#if __CUDA_ARCH__ >= 900
  if (threadIdx.x == 0) {
    InitBarrier(shared.told, 1);
    PublishBarriers();
    ArriveAndExpect(shared.told, sizeof(shared.of_blocks));
  }
  ClusterArrive();
#endif
}

// Merges the partials of a cluster's blocks, each of which all threads of its block pass. Every
// thread gets the result. No block exits while another one writes to it, because it waits for all
// of them.
template <int kCluster>
__device__ inline SoftmaxPartial ClusterMerge(SoftmaxPartial partial,
                                              ClusterPartials<kCluster>& shared, int rank) {
#if __CUDA_ARCH__ >= 900
  ClusterWait();
  const int thread = static_cast<int>(threadIdx.x);
  if (thread < kCluster) {
    StoreToBlock(&shared.of_blocks[rank], thread, partial.maximum, partial.sum, shared.told);
  }
  WaitFor(shared.told, 0);
  const int lane = thread % kWarpSize;
  return WarpMerge(lane < kCluster ? shared.of_blocks[lane]
                                   : SoftmaxPartial{MinusInfinity(), 0.0f});
#else
  return partial;
#endif
}

// Elements of a row before its first 16-byte boundary.
template <typename T>
__device__ inline int FirstElements(const T* row, int64_t width) {
  constexpr int kSize = kVecSize<T>;
  const auto past = static_cast<int>(reinterpret_cast<uintptr_t>(row) / sizeof(T) % kSize);
  const int first = past == 0 ? 0 : kSize - past;
  return first < width ? first : static_cast<int>(width);
}

// Units between the start of a line of memory and an address.
__device__ inline int UnitsBefore(const void* address) {
  return static_cast<int>(reinterpret_cast<uintptr_t>(address) / kUnitBytes % kLineUnits);
}

// How a row is held in registers: in kUnits units of each of kRowThreads threads of kCluster
// blocks. kBlocksEach blocks run on a multiprocessor at once, so that some load and store while
// others compute. If a row's exponentials would take twice the registers of its elements for that,
// they are computed twice (kTwice). With kAhead a block also prefetches the row of the block that
// takes its place to L2, so that memory is not idle while all blocks compute.
template <int kThreadsOfRow, int kUnitsEach, int kBlocksOfRow, int kBlocksOfMultiprocessor,
          bool kComputedTwice, bool kRowsAhead = false>
struct SoftmaxShape {
  static constexpr int kRowThreads = kThreadsOfRow;  // of a block
  static constexpr int kUnits = kUnitsEach;
  static constexpr int kCluster = kBlocksOfRow;
  static constexpr int kBlocksEach = kBlocksOfMultiprocessor;
  static constexpr bool kTwice = kComputedTwice;
  static constexpr bool kAhead = kRowsAhead;
  static constexpr int kThreads = kRowThreads < kLeastThreads ? kLeastThreads : kRowThreads;
  static constexpr int kRowsPerBlock = kThreads / kRowThreads;
};

// Prefetches the row that is args.rows_ahead rows after `row` to L2, except the units that it
// shares with neighbouring rows. Called by one thread.
template <typename T>
__device__ inline void BringRowAhead(const SoftmaxArgs<T>& args, int64_t row) {
#if __CUDA_ARCH__ >= 900
  if (row + args.rows_ahead >= args.num_rows) return;
  const T* const x = args.x + (row + args.rows_ahead) * args.x_stride;
  const auto first = RoundUp(reinterpret_cast<uintptr_t>(x), uintptr_t{kUnitBytes});
  const auto end = reinterpret_cast<uintptr_t>(x + args.width) / kUnitBytes * kUnitBytes;
  if (first >= end) return;
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;\n" ::"l"(first),
               "r"(static_cast<uint32_t>(end - first)));
#endif
}

// A row stays in registers between the reduction and the output. The elements before the row's
// first 16-byte boundary and after its last one go to threads of the first warp, one each. Grid:
// one block per kRowsPerBlock rows, or kCluster blocks per row. Bound by memory: x is read once, y
// is written once.
template <typename T, typename S>
__global__ void __launch_bounds__(S::kThreads, S::kBlocksEach)
    SoftmaxKernel(const __grid_constant__ SoftmaxArgs<T> args) {
  constexpr int kSize = kVecSize<T>;
  constexpr bool kWarpRows = S::kRowThreads == kWarpSize;
  __shared__ SoftmaxPartial partials[kWarpSize];
  __shared__ ClusterPartials<S::kCluster> cluster;
  if constexpr (S::kCluster > 1) StartClusterMerge(cluster);
  WaitForEarlierKernels();
  const int64_t row = kWarpRows
                          ? blockIdx.x * int64_t{S::kRowsPerBlock} + threadIdx.x / S::kRowThreads
                          : blockIdx.x / S::kCluster;
  if (kWarpRows && row >= args.num_rows) return;
  const int rank = S::kCluster > 1 ? static_cast<int>(blockIdx.x % S::kCluster) : 0;
  const int thread = threadIdx.x % S::kRowThreads;
  const T* x = args.x + row * args.x_stride;
  T* y = args.y + row * args.y_stride;
  const int num_first = FirstElements(x, args.width);
  const auto num_units = static_cast<int>((args.width - num_first) / kSize);
  const int num_edges = static_cast<int>(args.width) - num_units * kSize;
  // Warps start at lines, so that no two of them write parts of the same line.
  const int begin = rank * S::kRowThreads + thread - UnitsBefore(x + num_first);
  constexpr int kStep = S::kCluster * S::kRowThreads;

  SoftmaxUnit units[S::kUnits];
#pragma unroll
  for (int i = 0; i < S::kUnits; ++i) {
    const int index = begin + i * kStep;
    units[i] = index >= 0 && index < num_units
                   ? __ldcs(reinterpret_cast<const SoftmaxUnit*>(x + num_first) + index)
                   : EmptyUnit<T>();
  }
  if (S::kAhead && threadIdx.x == 0 && rank == 0) BringRowAhead(args, row);
  const bool has_edge = rank == 0 && thread < num_edges;
  const int64_t edge = thread < num_first ? thread : thread + int64_t{num_units} * kSize;
  float edge_value = has_edge ? ToFloat(x[edge]) : MinusInfinity();

  // The exponentials are of x minus this thread's maximum. A factor converts them to the row's
  // maximum.
  const float maximum = fmaxf(GreatestOf<T>(units), edge_value);
  const float base = SoftmaxBase(maximum);
  const float edge_power = SoftmaxPower(edge_value, base);
  float powers[S::kTwice ? 1 : S::kUnits][kSize];
  float sums[2] = {edge_power, 0.0f};
#pragma unroll
  for (int i = 0; i < S::kUnits; ++i) {
    float(&own)[kSize] = powers[S::kTwice ? 0 : i];
    Unpack<T>(units[i], own);
#pragma unroll
    for (int j = 0; j < kSize; ++j) {
      own[j] = SoftmaxPower(own[j], base);
      sums[j % 2] += own[j];
    }
  }
  SoftmaxPartial whole = {maximum, sums[0] + sums[1]};
  if constexpr (kWarpRows) {
    whole = WarpMerge(whole);
  } else {
    whole = BlockMerge<S::kRowThreads>(whole, partials);
    if constexpr (S::kCluster > 1) whole = ClusterMerge(whole, cluster, rank);
  }

  const float row_base = SoftmaxBase(whole.maximum);
  const float scale = __fdividef(SoftmaxPower(maximum, row_base), whole.sum);
  const float shift = -__log2f(whole.sum);
  if constexpr (S::kTwice) ForgetUnpacked(units);
#pragma unroll
  for (int i = 0; i < S::kUnits; ++i) {
    const int index = begin + i * kStep;
    if (index < 0 || index >= num_units) continue;
    float(&own)[kSize] = powers[S::kTwice ? 0 : i];
    if constexpr (S::kTwice) Unpack<T>(units[i], own);
#pragma unroll
    for (int j = 0; j < kSize; ++j) {
      own[j] =
          S::kTwice ? SoftmaxPowerOfTwo(fmaf(own[j] - row_base, kLog2E, shift)) : own[j] * scale;
    }
    __stcs(reinterpret_cast<SoftmaxUnit*>(y + num_first) + index, Packed<T>(own));
  }
  if (has_edge) y[edge] = FromFloat<T>(edge_power * scale);
}

}  // namespace beamline::cuda
