// Softmax: a row waits in the registers of a warp, a block or a cluster of blocks, a 16-bit one of
// several blocks in their shared memory (row_softmax_ring.cuh); rows that do not fit are read
// twice.

#include "kernels/cuda/epilogues/row_softmax.h"

#include <algorithm>
#include <array>
#include <atomic>

#include "base/math.h"
#include "kernels/cuda/device/scalar.cuh"
#include "kernels/cuda/device/thread_block_cluster.cuh"
#include "kernels/cuda/epilogues/row_softmax_math.cuh"
#include "kernels/cuda/epilogues/row_softmax_ring.cuh"

namespace beamline::cuda {
namespace {

constexpr int kLeastThreads = 128;  // of a block; narrow rows share one
constexpr int kStreamingThreads = 1024;
constexpr int kClusterArchitecture = 90;

// Merges the partials of a block's threads; every thread gets the result.
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

// Merges the partials of a cluster's blocks; every thread gets the result.
template <int kCluster>
__device__ inline SoftmaxPartial ClusterMerge(SoftmaxPartial partial, SoftmaxPartial& shared) {
  if (threadIdx.x == 0) shared = partial;
  ClusterArrive();
  ClusterWait();
  const int lane = threadIdx.x % kWarpSize;
  SoftmaxPartial other = {MinusInfinity(), 0.0f};
  if (lane < kCluster) other = ReadFromBlock(shared, lane);
  // No block may exit while another one reads its shared memory.
  ClusterArrive();
  partial = WarpMerge(other);
  ClusterWait();
  return partial;
}

// Elements of a row before its first 16-byte boundary.
template <typename T>
__device__ inline int FirstElements(const T* row, int64_t width) {
  constexpr int kSize = kVecSize<T>;
  const auto past = static_cast<int>(reinterpret_cast<uintptr_t>(row) / sizeof(T) % kSize);
  const int first = past == 0 ? 0 : kSize - past;
  return first < width ? first : static_cast<int>(width);
}

// A row per kRowThreads threads of kCluster blocks. It waits in registers, kVecs accesses of 16
// bytes a thread, between the reduction and the output. Elements before the row's first 16-byte
// boundary and after its last one go one to a thread of the first warp.
// Grid: a block for each kLeastThreads / kRowThreads rows, or kCluster blocks a row.
// Bound by memory: x read once, y written once.
template <typename T, int kRowThreads, int kVecs, int kCluster>
__global__ void __launch_bounds__(kRowThreads < kLeastThreads ? kLeastThreads : kRowThreads)
    SoftmaxKernel(SoftmaxArgs<T> args) {
  constexpr int kSize = kVecSize<T>;
  using Vector = Vec<T, kSize>;
  __shared__ SoftmaxPartial partials[kWarpSize];
  __shared__ SoftmaxPartial block_partial;
  constexpr bool kWarpRows = kRowThreads == kWarpSize;
  const int64_t row =
      kWarpRows ? blockIdx.x * int64_t{kLeastThreads / kRowThreads} + threadIdx.x / kRowThreads
                : blockIdx.x / kCluster;
  if (kWarpRows && row >= args.num_rows) return;
  const int rank = kCluster > 1 ? static_cast<int>(blockIdx.x % kCluster) : 0;
  const int thread = threadIdx.x % kRowThreads;
  const T* x = args.x + row * args.x_stride;
  T* y = args.y + row * args.y_stride;
  const int num_first = FirstElements(x, args.width);
  const auto num_vectors = static_cast<int>((args.width - num_first) / kSize);
  const int num_edges = static_cast<int>(args.width) - num_vectors * kSize;
  const int begin = rank * kRowThreads + thread;
  constexpr int kStep = kCluster * kRowThreads;

  int4 loaded[kVecs];
#pragma unroll
  for (int i = 0; i < kVecs; ++i) {
    const int index = begin + i * kStep;
    if (index < num_vectors) {
      loaded[i] = __ldcs(reinterpret_cast<const int4*>(x + num_first) + index);
    }
  }
  const bool has_edge = rank == 0 && thread < num_edges;
  const int64_t edge = thread < num_first ? thread : thread + int64_t{num_vectors} * kSize;
  float edge_value = has_edge ? ToFloat(x[edge]) : MinusInfinity();

  float values[kVecs][kSize];
  float maximum = edge_value;
#pragma unroll
  for (int i = 0; i < kVecs; ++i) {
    const auto vector = *reinterpret_cast<const Vector*>(&loaded[i]);
    const bool there = begin + i * kStep < num_vectors;
#pragma unroll
    for (int j = 0; j < kSize; ++j) {
      values[i][j] = there ? ToFloat(vector.values[j]) : MinusInfinity();
      maximum = fmaxf(maximum, values[i][j]);
    }
  }
  // The exponentials are of x minus this thread's maximum. One factor takes them to the row's.
  const float base = SoftmaxBase(maximum);
  edge_value = SoftmaxPower(edge_value, base);
  SoftmaxPartial partial = {maximum, edge_value};
#pragma unroll
  for (int i = 0; i < kVecs; ++i) {
#pragma unroll
    for (int j = 0; j < kSize; ++j) {
      values[i][j] = SoftmaxPower(values[i][j], base);
      partial.sum += values[i][j];
    }
  }
  if constexpr (kWarpRows) {
    partial = WarpMerge(partial);
  } else {
    partial = BlockMerge<kRowThreads>(partial, partials);
    if constexpr (kCluster > 1) partial = ClusterMerge<kCluster>(partial, block_partial);
  }

  const float scale = SoftmaxPower(maximum, SoftmaxBase(partial.maximum)) / partial.sum;
#pragma unroll
  for (int i = 0; i < kVecs; ++i) {
    const int index = begin + i * kStep;
    if (index >= num_vectors) continue;
    Vector out;
#pragma unroll
    for (int j = 0; j < kSize; ++j) out.values[j] = FromFloat<T>(values[i][j] * scale);
    __stcs(reinterpret_cast<int4*>(y + num_first) + index, *reinterpret_cast<const int4*>(&out));
  }
  if (has_edge) y[edge] = FromFloat<T>(edge_value * scale);
}

// A block a row, read twice: once for the maximum and the sum, which are kept together, and once
// for the output. Each thread writes what it read, so that y may be x.
template <typename T, int kSize>
__global__ void __launch_bounds__(kStreamingThreads) StreamingSoftmaxKernel(SoftmaxArgs<T> args) {
  __shared__ SoftmaxPartial partials[kWarpSize];
  const T* x = args.x + blockIdx.x * args.x_stride;
  T* y = args.y + blockIdx.x * args.y_stride;
  SoftmaxPartial partial = {MinusInfinity(), 0.0f};
  for (int64_t i = int64_t{threadIdx.x} * kSize; i < args.width; i += kStreamingThreads * kSize) {
    float values[kSize];
    LoadFloats<kSize>(x + i, values);
    float maximum = partial.maximum;
#pragma unroll
    for (int j = 0; j < kSize; ++j) maximum = fmaxf(maximum, values[j]);
    const float base = SoftmaxBase(maximum);
    partial.sum *= SoftmaxPower(partial.maximum, base);
    partial.maximum = maximum;
#pragma unroll
    for (int j = 0; j < kSize; ++j) partial.sum += SoftmaxPower(values[j], base);
  }
  partial = BlockMerge<kStreamingThreads>(partial, partials);
  const float row_base = SoftmaxBase(partial.maximum);
  const float scale = 1.0f / partial.sum;
  for (int64_t i = int64_t{threadIdx.x} * kSize; i < args.width; i += kStreamingThreads * kSize) {
    float values[kSize];
    LoadFloats<kSize>(x + i, values);
#pragma unroll
    for (int j = 0; j < kSize; ++j) values[j] = SoftmaxPower(values[j], row_base) * scale;
    StoreFloats<kSize>(values, y + i);
  }
}

template <typename T, int kRowThreads, int kVecs, int kCluster = 1>
void Launch(Device& device, const SoftmaxArgs<T>& args) {
  constexpr int kThreads = kRowThreads < kLeastThreads ? kLeastThreads : kRowThreads;
  constexpr int64_t kRowsPerBlock = kThreads / kRowThreads;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(CeilDiv(args.num_rows, kRowsPerBlock) * kCluster));
  config.blockDim = dim3(kThreads);
  config.stream = device.stream();
  cudaLaunchAttribute cluster;
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim.x = kCluster;
  cluster.val.clusterDim.y = cluster.val.clusterDim.z = 1;
  config.attrs = &cluster;
  config.numAttrs = kCluster > 1 ? 1 : 0;
  device.Check(cudaLaunchKernelEx(&config, SoftmaxKernel<T, kRowThreads, kVecs, kCluster>, args),
               "RowSoftmax");
  device.CheckLaunch("RowSoftmax");
}

// How many clusters of a kernel run at once: asked for once on each GPU.
template <typename Kernel>
int64_t ClustersAtOnce(Device& device, Kernel kernel, const cudaLaunchConfig_t& config) {
  constexpr size_t kMostDevices = 64;
  static std::array<std::atomic<int>, kMostDevices> known = {};
  std::atomic<int>& found = known[static_cast<size_t>(device.index()) % kMostDevices];
  int clusters = found.load(std::memory_order_relaxed);
  if (clusters == 0) {
    device.Check(cudaOccupancyMaxActiveClusters(&clusters, kernel, &config), "RowSoftmax");
    found.store(clusters, std::memory_order_relaxed);
  }
  return std::max(clusters, 1);
}

// Launches the ring kernel of a shape; false where a row or two of its stages do not fit.
template <typename T, typename S>
bool LaunchRing(Device& device, const SoftmaxArgs<T>& args) {
  using Group = SoftmaxGroup<T, S>;
  const int64_t units = CeilDiv(args.width / kVecSize<T>, int64_t{S::kBlocks});
  if (units > S::kUnits * S::kThreads) return false;
  constexpr int64_t kEdgeUnits = 2;
  SoftmaxRing ring;
  ring.stage_bytes = static_cast<int>(RoundUp((units + kEdgeUnits) * kUnitBytes, int64_t{128}));
  constexpr int64_t kOwnBytes = S::kGroups * sizeof(typename Group::Shared) + 128;
  const int64_t room = static_cast<int64_t>(device.properties().sharedMemPerBlockOptin) - kOwnBytes;
  ring.num_stages = static_cast<int>(
      std::min<int64_t>(kMostSoftmaxStages, room / (int64_t{S::kGroups} * ring.stage_bytes)));
  if (ring.num_stages < 2) return false;

  const auto kernel = RingSoftmaxKernel<T, S>;
  const int bytes = S::kGroups * ring.num_stages * ring.stage_bytes;
  device.Check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes),
               "RowSoftmax: shared memory");
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(S::kBlocks);
  config.blockDim = dim3(S::kGroups * S::kThreads);
  config.dynamicSmemBytes = static_cast<size_t>(bytes);
  config.stream = device.stream();
  cudaLaunchAttribute cluster;
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim.x = S::kBlocks;
  cluster.val.clusterDim.y = cluster.val.clusterDim.z = 1;
  config.attrs = &cluster;
  config.numAttrs = 1;
  const int64_t clusters =
      std::min(ClustersAtOnce(device, kernel, config), CeilDiv(args.num_rows, int64_t{S::kGroups}));
  config.gridDim = dim3(static_cast<unsigned>(clusters * S::kBlocks));
  device.Check(cudaLaunchKernelEx(&config, kernel, args, ring), "RowSoftmax");
  device.CheckLaunch("RowSoftmax");
  return true;
}

template <typename T>
void LaunchStreaming(Device& device, const SoftmaxArgs<T>& args, bool vectorizable) {
  const auto grid = static_cast<unsigned>(args.num_rows);
  if (vectorizable) {
    StreamingSoftmaxKernel<T, kVecSize<T>><<<grid, kStreamingThreads, 0, device.stream()>>>(args);
  } else {
    StreamingSoftmaxKernel<T, 1><<<grid, kStreamingThreads, 0, device.stream()>>>(args);
  }
  device.CheckLaunch("RowSoftmax");
}

// Rows of more than 1024 accesses of 16 bytes, up to 8192, with clusters up to 65536. The choices
// are the fastest of those measured on an H200. A thread holds its elements as floats: 16-bit ones
// take twice the registers for the same bytes, and rows of more than one block's wait in a ring.
template <typename T>
void LaunchWide16(Device& device, const SoftmaxArgs<T>& args, int64_t vectors, bool clusters) {
  if (vectors <= 2048) {
    Launch<T, 512, 4>(device, args);
  } else if (vectors <= 4096) {
    Launch<T, 1024, 4>(device, args);
  } else if (!clusters) {
    Launch<T, 1024, 8>(device, args);
  } else if (!LaunchRing<T, SoftmaxShape<1, 512, 8, 2>>(device, args) &&
             !LaunchRing<T, SoftmaxShape<1, 512, 8, 4>>(device, args) &&
             !LaunchRing<T, SoftmaxShape<1, 512, 8, 8>>(device, args)) {
    Launch<T, 1024, 8, 8>(device, args);
  }
}

template <typename T>
void LaunchWide32(Device& device, const SoftmaxArgs<T>& args, int64_t vectors, bool clusters) {
  if (vectors <= 2048) {
    Launch<T, 1024, 2>(device, args);
  } else if (vectors <= 4096 && clusters) {
    Launch<T, 256, 8, 2>(device, args);
  } else if (!clusters) {
    Launch<T, 1024, 8>(device, args);
  } else if (vectors <= 8192) {
    Launch<T, 512, 8, 2>(device, args);
  } else if (vectors <= 16384) {
    Launch<T, 1024, 8, 2>(device, args);
  } else if (vectors <= 32768) {
    Launch<T, 1024, 8, 4>(device, args);
  } else {
    Launch<T, 1024, 8, 8>(device, args);
  }
}

// Launches the kernel with the fewest threads that hold a row, so that more rows are under way at
// once. False when none holds it.
template <typename T>
bool LaunchOnce(Device& device, const SoftmaxArgs<T>& args) {
  const int64_t vectors = CeilDiv(args.width, kVecSize<T>);
  const bool clusters = device.code_architecture() >= kClusterArchitecture;
  if (vectors <= 32) {
    Launch<T, 32, 1>(device, args);
  } else if (vectors <= 64) {
    Launch<T, 32, 2>(device, args);
  } else if (vectors <= 128) {
    Launch<T, 32, 4>(device, args);
  } else if (vectors <= 256) {
    Launch<T, 128, 2>(device, args);
  } else if (vectors <= 512) {
    Launch<T, 128, 4>(device, args);
  } else if (vectors <= 1024) {
    Launch<T, 256, 4>(device, args);
  } else if (vectors > 8 * 8192 || (vectors > 8192 && !clusters)) {
    return false;
  } else if constexpr (sizeof(T) == 2) {
    LaunchWide16(device, args, vectors, clusters);
  } else {
    LaunchWide32(device, args, vectors, clusters);
  }
  return true;
}

}  // namespace

void RowSoftmax(Device& device, const RowSoftmaxParams& params) {
  const Tensor& x = params.x;
  const Tensor& y = params.y;
  BEAMLINE_CHECK(x.dtype == y.dtype && x.num_rows() == y.num_rows() && x.dim(-1) == y.dim(-1));
  const int64_t num_rows = x.num_rows();
  if (num_rows == 0 || !device.ok()) return;
  BEAMLINE_CHECK(x.dim(-1) >= 1 && x.dim(-1) < int64_t{1} << 31);
  DispatchFloat(x.dtype, [&]<typename T>() {
    const SoftmaxArgs<T> args = {x.as<T>(),    y.as<T>(), x.row_stride,
                                 y.row_stride, num_rows,  x.dim(-1)};
    // Whether x and y lie alike within 16-byte units in every row, so that an aligned access to one
    // is aligned in the other.
    const auto distance = reinterpret_cast<uintptr_t>(args.x) - reinterpret_cast<uintptr_t>(args.y);
    const int64_t drift = (args.x_stride - args.y_stride) * static_cast<int64_t>(sizeof(T));
    const bool in_step = distance % 16 == 0 && drift % 16 == 0;
    if (in_step && LaunchOnce(device, args)) return;
    LaunchStreaming(device, args, IsVectorizable(x) && IsVectorizable(y));
  });
}

}  // namespace beamline::cuda
