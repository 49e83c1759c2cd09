// Softmax. A row is held in the registers of a warp, a block or a cluster of blocks, or in their
// shared memory. Rows that do not fit are read twice.

#include "kernels/cuda/epilogues/row_softmax.h"

#include <algorithm>
#include <array>
#include <atomic>

#include "base/math.h"
#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/device/scalar.cuh"
#include "kernels/cuda/epilogues/row_softmax_math.cuh"
#include "kernels/cuda/epilogues/row_softmax_registers.cuh"
#include "kernels/cuda/epilogues/row_softmax_ring.cuh"

namespace beamline::cuda {
namespace {

constexpr int kStreamingThreads = 1024;
constexpr int kClusterArchitecture = 90;

// One block per row, which is read twice: once for the maximum and the sum, which are computed
// together, and once for the output. Each thread writes what it read, so that y may be x.
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

template <typename T, typename S>
void Launch(Device& device, SoftmaxArgs<T> args) {
  args.rows_ahead = int64_t{device.num_multiprocessors()} * S::kBlocksEach / S::kCluster;
  cudaLaunchConfig_t config = {};
  config.gridDim =
      dim3(static_cast<unsigned>(CeilDiv(args.num_rows, int64_t{S::kRowsPerBlock}) * S::kCluster));
  config.blockDim = dim3(S::kThreads);
  config.stream = device.stream();
  cudaLaunchAttribute attributes[2] = {};
  attributes[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[0].val.programmaticStreamSerializationAllowed = 1;
  attributes[1].id = cudaLaunchAttributeClusterDimension;
  attributes[1].val.clusterDim.x = S::kCluster;
  attributes[1].val.clusterDim.y = attributes[1].val.clusterDim.z = 1;
  config.attrs = attributes;
  config.numAttrs = device.code_architecture() < kOverlapArchitecture ? 0 : S::kCluster > 1 ? 2 : 1;
  device.Check(cudaLaunchKernelEx(&config, SoftmaxKernel<T, S>, args), "RowSoftmax");
  device.CheckLaunch("RowSoftmax");
}

// The number of clusters of a ring kernel that run at once. Queried once per GPU.
template <typename T, typename S>
int64_t ClustersAtOnce(Device& device, const cudaLaunchConfig_t& config) {
  constexpr size_t kMostDevices = 64;
  static std::array<std::atomic<int>, kMostDevices> known = {};
  std::atomic<int>& found = known[static_cast<size_t>(device.index()) % kMostDevices];
  int clusters = found.load(std::memory_order_relaxed);
  if (clusters == 0) {
    device.Check(cudaOccupancyMaxActiveClusters(&clusters, RingSoftmaxKernel<T, S>, &config),
                 "RowSoftmax");
    found.store(clusters, std::memory_order_relaxed);
  }
  return std::max(clusters, 1);
}

// Whether every row of a matrix starts at a line of memory.
template <typename T>
bool BeginsAtLines(const T* rows, int64_t stride) {
  return reinterpret_cast<uintptr_t>(rows) % kLineBytes == 0 &&
         stride * static_cast<int64_t>(sizeof(T)) % kLineBytes == 0;
}

// Launches the ring kernel of a shape. False if a row or its stages do not fit.
template <typename T, typename S>
bool LaunchRing(Device& device, const SoftmaxArgs<T>& args) {
  const int64_t units =
      args.width / kVecSize<T> + (BeginsAtLines(args.x, args.x_stride) ? 0 : kLineUnits);
  const int64_t part = RoundUp(CeilDiv(units, int64_t{S::kBlocks}), int64_t{kLineUnits});
  if (part > S::kUnits * S::kThreads) return false;
  SoftmaxRing ring = {.num_stages = 0, .part = static_cast<int>(part)};
  constexpr int64_t kOwnBytes = sizeof(RingShared<S>) + kLineBytes;
  const int64_t room = static_cast<int64_t>(device.properties().sharedMemPerBlockOptin) - kOwnBytes;
  ring.num_stages =
      static_cast<int>(std::min<int64_t>(kMostSoftmaxStages, room / ring.stage_bytes()));
  if (ring.num_stages <= S::kGroups) return false;

  const auto kernel = RingSoftmaxKernel<T, S>;
  const int bytes = ring.num_stages * ring.stage_bytes();
  device.Check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes),
               "RowSoftmax: shared memory");
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(S::kBlocks);
  config.blockDim = dim3(S::kBlockThreads);
  config.dynamicSmemBytes = static_cast<size_t>(bytes);
  config.stream = device.stream();
  cudaLaunchAttribute attributes[2] = {};
  attributes[0].id = cudaLaunchAttributeClusterDimension;
  attributes[0].val.clusterDim.x = S::kBlocks;
  attributes[0].val.clusterDim.y = attributes[0].val.clusterDim.z = 1;
  attributes[1].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[1].val.programmaticStreamSerializationAllowed = 1;
  config.attrs = attributes;
  config.numAttrs = 1;
  const int64_t clusters = std::min(ClustersAtOnce<T, S>(device, config), args.num_rows);
  config.gridDim = dim3(static_cast<unsigned>(clusters * S::kBlocks));
  config.numAttrs = 2;
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

// Rows of more than 1024 units, with clusters up to 65536. The shapes are the fastest of those
// measured on an H200.
template <typename T>
void LaunchWide16(Device& device, const SoftmaxArgs<T>& args, int64_t units, bool clusters) {
  if (units <= 2048) {
    Launch<T, SoftmaxShape<512, 4, 1, 2, false, true>>(device, args);
  } else if (units <= 4096) {
    Launch<T, SoftmaxShape<1024, 4, 1, 1, false, true>>(device, args);
  } else if (!clusters) {
    Launch<T, SoftmaxShape<1024, 8, 1, 1, true>>(device, args);
  } else if (!LaunchRing<T, RingShape<7, 128, 7, 8>>(device, args) &&
             !LaunchRing<T, RingShape<6, 128, 8, 8>>(device, args) &&
             !LaunchRing<T, RingShape<3, 256, 8, 8>>(device, args) &&
             !LaunchRing<T, RingShape<1, 512, 8, 8>>(device, args)) {
    Launch<T, SoftmaxShape<1024, 8, 8, 1, true>>(device, args);
  }
}

template <typename T>
void LaunchWide32(Device& device, const SoftmaxArgs<T>& args, int64_t units, bool clusters) {
  if (units <= 2048) {
    Launch<T, SoftmaxShape<1024, 2, 1, 2, false>>(device, args);
  } else if (units <= 4096) {
    Launch<T, SoftmaxShape<512, 8, 1, 2, false>>(device, args);
  } else if (!clusters) {
    Launch<T, SoftmaxShape<1024, 8, 1, 1, false>>(device, args);
  } else if (units <= 8192) {
    Launch<T, SoftmaxShape<512, 8, 2, 2, false>>(device, args);
  } else if (LaunchRing<T, RingShape<3, 224, 8, 8>>(device, args)) {
    return;
  } else if (units <= 16384) {
    Launch<T, SoftmaxShape<512, 8, 4, 2, false>>(device, args);
  } else if (!LaunchRing<T, RingShape<1, 512, 8, 8>>(device, args)) {
    Launch<T, SoftmaxShape<1024, 8, 8, 1, false>>(device, args);
  }
}

// Launches the kernel with the fewest threads that hold a row, so that more rows are in flight at
// once. False if none holds it.
template <typename T>
bool LaunchOnce(Device& device, const SoftmaxArgs<T>& args) {
  // Rows that start within a line take more units.
  const int64_t units = CeilDiv(args.width, kVecSize<T>) +
                        (BeginsAtLines(args.x, args.x_stride) ? 0 : kLineUnits - 1);
  const bool clusters = device.code_architecture() >= kClusterArchitecture;
  if (units <= 32) {
    Launch<T, SoftmaxShape<32, 1, 1, 1, false>>(device, args);
  } else if (units <= 64) {
    Launch<T, SoftmaxShape<32, 2, 1, 1, false>>(device, args);
  } else if (units <= 128) {
    Launch<T, SoftmaxShape<32, 4, 1, 1, false>>(device, args);
  } else if (units <= 256) {
    Launch<T, SoftmaxShape<128, 2, 1, 1, false>>(device, args);
  } else if (units <= 512) {
    Launch<T, SoftmaxShape<128, 4, 1, 1, false>>(device, args);
  } else if (units <= 1024) {
    Launch<T, SoftmaxShape<256, 4, 1, 1, false>>(device, args);
  } else if (units > 8 * 8192 || (units > 8192 && !clusters)) {
    return false;
  } else if constexpr (sizeof(T) == 2) {
    LaunchWide16(device, args, units, clusters);
  } else {
    LaunchWide32(device, args, units, clusters);
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
    // Whether x and y have the same offset within 16-byte units in every row, so that an aligned
    // access to one is aligned in the other.
    const auto distance = reinterpret_cast<uintptr_t>(args.x) - reinterpret_cast<uintptr_t>(args.y);
    const int64_t drift = (args.x_stride - args.y_stride) * static_cast<int64_t>(sizeof(T));
    const bool in_step = distance % 16 == 0 && drift % 16 == 0;
    if (in_step && LaunchOnce(device, args)) return;
    LaunchStreaming(device, args, IsVectorizable(x) && IsVectorizable(y));
  });
}

}  // namespace beamline::cuda
