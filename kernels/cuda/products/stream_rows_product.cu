// Products of a few rows and a large weight, as stream_product.cu of one: the time to read the
// weight. A block has 16 output features at a time, of which each warp takes every kWarps-th part
// of 64 input features: the copy engine brings these boxes to a ring of the warp's own, and tensor
// cores multiply them (as their 16 rows) by the rows of x (as their 8 columns), which lie in shared
// memory throughout. The first round of copies begins before the kernel's turn.
#include "kernels/cuda/products/stream_rows_product.h"

#include "kernels/cuda/device/hopper.cuh"
#include "kernels/cuda/device/tensor_map.h"
#include "kernels/cuda/products/skinny_output.cuh"
#include "kernels/cuda/rows/row_norm.cuh"

namespace beamline::cuda {
namespace {

constexpr int kWarps = 8;
constexpr int kThreads = kWarps * kWarpSize;
constexpr int kMostRows = 8;
constexpr int kFeatures = 16;
constexpr int kBoxColumns = kSwizzledColumns;
constexpr int kBox = kFeatures * kBoxColumns;
constexpr int kNeighbours = 4;  // parts that follow each other in memory: 512 bytes of a row
constexpr int kBoxes = 8;       // of a warp's ring: 128 KiB in flight
constexpr int kChunk = 8;       // elements of an access of 16 bytes
constexpr int kSums = kFeatures * kMostRows;

struct Args {
  const void* x;
  int64_t x_stride;
  int num_rows, in_features;
  int parts;      // of kBoxColumns input features
  int num_units;  // of kFeatures output features
  int out_features;
};

struct Shared {
  SharedBarrier full[kWarps][kBoxes];
  float sums[2][kWarps][kSums];  // of two units in turn
};

// Elements between the rows of x in shared memory, so that eight rows of a column of chunks lie in
// different banks.
__host__ __device__ constexpr int RowStride(int parts) { return parts * kBoxColumns + kChunk; }

// A warp takes kNeighbours parts beside each other, then those that are as many warps further on.
__device__ inline int NextPart(int part) {
  const int next = part + 1;
  return next % kNeighbours != 0 ? next : next + kNeighbours * (kWarps - 1);
}

// The boxes of a warp, one after the other.
struct Boxes {
  const Args& args;
  int warp;
  int unit, part;

  __device__ bool IsThere() const { return unit < args.num_units; }
  __device__ void Advance() {
    part = NextPart(part);
    if (part < args.parts) return;
    part = warp * kNeighbours;
    unit += static_cast<int>(gridDim.x);
  }
};

// Rows of x, and zeros behind them up to whole parts.
template <typename T>
__device__ void LoadRows(const Args& args, T* rows) {
  const int columns = args.parts * kBoxColumns;
  const T* const x = static_cast<const T*>(args.x);
  for (int row = 0; row < args.num_rows; ++row) {
    for (int at = static_cast<int>(threadIdx.x) * kChunk; at < columns; at += kThreads * kChunk) {
      uint4 chunk = {};
      if (at < args.in_features) {
        chunk = *reinterpret_cast<const uint4*>(x + row * args.x_stride + at);
      }
      *reinterpret_cast<uint4*>(rows + row * RowStride(args.parts) + at) = chunk;
    }
  }
}

// c += the products of a box's features and the rows' columns from `columns` on; `place` is what
// this lane's address among the rows begins with.
template <typename T>
__device__ void MultiplyBox(T* box, const T* columns, int lane, float (&c)[2][4]) {
  const SwizzledTile<T, kBoxColumns> tile = {box};
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    uint32_t x[4];
    LoadMatrices(columns + half * 32, x);
#pragma unroll
    for (int k = 0; k < 2; ++k) {
      uint32_t a[4];
      LoadMatrices(tile.Chunk(lane % 16, half * 4 + k * 2 + lane / 16), a);
      MultiplyAdd<T>(a, x[2 * k], x[2 * k + 1], c[k]);
    }
  }
}

// Grid: a block a multiprocessor.
template <typename T, typename Output>
__global__ void __launch_bounds__(kThreads)
    StreamRowsKernel(const __grid_constant__ CUtensorMap map, Args args, Output output) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ __align__(kSwizzledAlignment) unsigned char memory[];
  T* const ring = reinterpret_cast<T*>(memory);
  auto& shared = *reinterpret_cast<Shared*>(ring + kWarps * kBoxes * kBox);
  T* const rows = reinterpret_cast<T*>(&shared + 1);
  const int warp = __shfl_sync(kFullMask, static_cast<int>(threadIdx.x) / kWarpSize, 0);
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  T* const boxes = ring + warp * kBoxes * kBox;
  Boxes next = {args, warp, static_cast<int>(blockIdx.x), warp * kNeighbours};
  if (next.part >= args.parts) next.unit = args.num_units;
  const uint64_t policy = LeavesFirst();
  const auto copy_next = [&](int place) {
    if (!next.IsThere()) return;
    ArriveAndExpect(shared.full[warp][place], kBox * static_cast<int>(sizeof(T)));
    CopyWeightBox(boxes + place * kBox, map, next.part * kBoxColumns, next.unit * kFeatures,
                  shared.full[warp][place], policy);
    next.Advance();
  };
  if (lane == 0) {
    for (int i = 0; i < kBoxes; ++i) InitBarrier(shared.full[warp][i], 1);
    PublishBarriers();
    for (int i = 0; i < kBoxes; ++i) copy_next(i);
  }
  WaitForEarlierKernels();
  LoadRows(args, rows);
  __syncthreads();

  // What absent rows get is nobody's.
  const T* const columns =
      rows + min(lane % 8, args.num_rows - 1) * RowStride(args.parts) + lane / 8 * kChunk;
  Ring<kBoxes> ring_place;
  int turn = 0;
  for (int unit = static_cast<int>(blockIdx.x); unit < args.num_units;
       unit += static_cast<int>(gridDim.x), turn ^= 1) {
    const int row = static_cast<int>(threadIdx.x) / kFeatures;
    const int feature = unit * kFeatures + static_cast<int>(threadIdx.x) % kFeatures;
    const bool completes = row < args.num_rows && feature < args.out_features;
    typename Output::Inputs inputs = {};
    if (completes) {
      inputs = output.LoadWeights(row, feature);
      output.LoadRest(row, feature, inputs);
    }
    float c[2][4] = {};
    for (int part = warp * kNeighbours; part < args.parts; part = NextPart(part)) {
      WaitFor(shared.full[warp][ring_place.at], ring_place.parity);
      MultiplyBox(boxes + ring_place.at * kBox, columns + part * kBoxColumns, lane, c);
      __syncwarp();
      if (lane == 0) copy_next(ring_place.at);
      ring_place.Advance();
    }
    float* const own = shared.sums[turn][warp];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int at = (lane % 4 * 2 + i % 2) * kFeatures + lane / 4 + i / 2 * 8;
      own[at] = c[0][i] + c[1][i];
    }
    __syncthreads();
    if (!completes) continue;
    float sum = 0.0f;
#pragma unroll
    for (int w = 0; w < kWarps; ++w) sum += shared.sums[turn][w][threadIdx.x];
    output.Store(row, feature, inputs, sum, 0.0f);
  }
#endif
}

int64_t SharedBytes(int64_t num_rows, int parts) {
  return int64_t{kWarps} * kBoxes * kBox * 2 + static_cast<int64_t>(sizeof(Shared)) +
         num_rows * RowStride(parts) * 2;
}

}  // namespace

bool StreamRowsProduct(Device& device, const MatMulParams& params, const CudaWeight& weight) {
  Args args = {};
  args.x = params.x.data;
  args.x_stride = params.x.row_stride;
  args.num_rows = static_cast<int>(params.x.num_rows());
  args.in_features = static_cast<int>(weight.in_features());
  args.parts = CeilDiv(args.in_features, kBoxColumns);
  args.out_features = static_cast<int>(weight.out_features());
  args.num_units = CeilDiv(args.out_features, kFeatures);
  const int64_t shared_bytes = SharedBytes(args.num_rows, args.parts);
  if (args.num_rows < 2 || args.num_rows > kMostRows || params.gated ||
      args.in_features % kChunk != 0 || !IsVectorizable(params.x) ||
      shared_bytes > static_cast<int64_t>(device.properties().sharedMemPerBlockOptin)) {
    return false;
  }
  const CUtensorMap map = MakeMatrixMap(
      device,
      {weight.data(), weight.padded_rows(), weight.in_features(), weight.row_stride(), kFeatures});
  if (!device.ok()) return true;
  const auto launch = [&]<typename T>() {
    return WithOutput<T>(params, [&]<typename Output>(const Output& output) {
      if constexpr (!Output::kPaired) {
        const auto kernel = StreamRowsKernel<T, Output>;
        AllowShared(device, kernel, shared_bytes, /*static_bytes=*/0);
        LaunchOverlapped(device, "a product of few rows", kernel,
                         int64_t{device.num_multiprocessors()}, kThreads, shared_bytes, map, args,
                         output);
      }
      return true;
    });
  };
  return weight.dtype() == DType::kFloat16 ? launch.template operator()<__half>()
                                           : launch.template operator()<__nv_bfloat16>();
}

}  // namespace beamline::cuda
