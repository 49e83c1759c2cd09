#include "kernels/cuda/epilogues/column_sums.h"

#include "base/math.h"
#include "kernels/cuda/device/scalar.cuh"

namespace beamline::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kRowsAtOnce = 4;  // loads in flight in a thread
constexpr int64_t kLeastRowsPerThread = 2 * kRowsAtOnce;
constexpr int kBlocksPerMultiprocessor = 8;

template <typename T, typename Sum>
struct ColumnSumsArgs {
  const T* x;  // [rows, columns]
  Sum* sums;   // [gridDim.y, columns]
  int64_t rows, columns, stride;
  int64_t rows_per_block;
  int lanes;  // threads side by side in a row, a power of two
};

// Grid: (pieces of lanes * kSize columns, pieces of rows_per_block rows). A block has kThreads /
// lanes groups, each with its own rows, so that narrow matrices keep every thread busy and wide
// ones are read in whole lines. Bound by memory: x is read once.
template <typename T, typename Sum, int kSize>
__global__ void __launch_bounds__(kThreads) ColumnSumsKernel(ColumnSumsArgs<T, Sum> args) {
  __shared__ float thread_sums[kThreads][kSize];
  const int lane = threadIdx.x % args.lanes, group = threadIdx.x / args.lanes;
  const int num_groups = kThreads / args.lanes;
  const int64_t column = (blockIdx.x * int64_t{args.lanes} + lane) * kSize;
  const int64_t begin = blockIdx.y * args.rows_per_block;
  const int64_t end =
      begin + args.rows_per_block < args.rows ? begin + args.rows_per_block : args.rows;
  float sums[kSize] = {};
  if (column < args.columns) {
    for (int64_t row = begin + group; row < end; row += num_groups * kRowsAtOnce) {
      Vec<T, kSize> loaded[kRowsAtOnce];
#pragma unroll
      for (int i = 0; i < kRowsAtOnce; ++i) {
        const int64_t r = row + i * num_groups;
        if (r >= end) continue;
        loaded[i] = *reinterpret_cast<const Vec<T, kSize>*>(args.x + r * args.stride + column);
      }
#pragma unroll
      for (int i = 0; i < kRowsAtOnce; ++i) {
        if (row + i * num_groups >= end) continue;
#pragma unroll
        for (int j = 0; j < kSize; ++j) sums[j] += ToFloat(loaded[i].values[j]);
      }
    }
  }
#pragma unroll
  for (int j = 0; j < kSize; ++j) thread_sums[threadIdx.x][j] = sums[j];
  for (int half = num_groups / 2; half > 0; half /= 2) {
    __syncthreads();
    if (group >= half) continue;
#pragma unroll
    for (int j = 0; j < kSize; ++j) {
      thread_sums[threadIdx.x][j] += thread_sums[threadIdx.x + half * args.lanes][j];
    }
  }
  if (group != 0 || column >= args.columns) return;
#pragma unroll
  for (int j = 0; j < kSize; ++j) {
    args.sums[blockIdx.y * args.columns + column + j] = FromFloat<Sum>(thread_sums[threadIdx.x][j]);
  }
}

template <int kSize>
int LanesFor(int64_t columns) {
  int lanes = 1;
  while (lanes < kWarpSize && lanes * kSize < columns) lanes *= 2;
  return lanes;
}

template <int kSize, typename T, typename Sum>
void Launch(Device& device, const ColumnSumsArgs<T, Sum>& args, cudaStream_t stream) {
  const int width = args.lanes * kSize;
  const auto pieces = static_cast<unsigned>(CeilDiv(args.columns, width));
  const auto blocks = static_cast<unsigned>(CeilDiv(args.rows, args.rows_per_block));
  ColumnSumsKernel<T, Sum, kSize><<<dim3(pieces, blocks), kThreads, 0, stream>>>(args);
  device.CheckLaunch("ColumnSums");
}

template <typename T, int kSize>
void SumMatrix(Device& device, const Tensor& x, const Tensor& sums, cudaStream_t stream) {
  ColumnSumsArgs<T, float> args = {};
  args.x = x.as<T>();
  args.rows = x.num_rows();
  args.columns = x.dim(-1);
  args.stride = x.row_stride;
  args.lanes = LanesFor<kSize>(args.columns);
  const int64_t pieces = CeilDiv(args.columns, args.lanes * kSize);
  const int64_t wanted = kBlocksPerMultiprocessor * device.num_multiprocessors() / pieces + 1;
  const int64_t least_rows = kThreads / args.lanes * kLeastRowsPerThread;
  const int64_t most = CeilDiv(args.rows, least_rows);
  const int64_t blocks = wanted < most ? wanted : most;
  args.rows_per_block = CeilDiv(args.rows, blocks);
  const int64_t num_partials = CeilDiv(args.rows, args.rows_per_block);
  args.sums = device.TakeScratch<float>(static_cast<size_t>(num_partials * args.columns));
  if (!device.ok()) return;
  Launch<kSize>(device, args, stream);
  SumPartials(device, args.sums, num_partials, sums, stream);
}

}  // namespace

void SumPartials(Device& device, const float* partials, int64_t num_partials, const Tensor& sums,
                 cudaStream_t stream) {
  DispatchFloat(sums.dtype, [&]<typename Sum>() {
    const int64_t columns = sums.dim(-1);
    const ColumnSumsArgs<float, Sum> args = {partials, sums.as<Sum>(), num_partials,        columns,
                                             columns,  num_partials,   LanesFor<1>(columns)};
    Launch<1>(device, args, stream);
  });
}

void ColumnSums(Device& device, const Tensor& x, const Tensor& sums, cudaStream_t stream) {
  BEAMLINE_CHECK(sums.dim(-1) == x.dim(-1) && x.num_elements() > 0);
  DispatchFloat(x.dtype, [&]<typename T>() {
    if (IsVectorizable(x)) {
      SumMatrix<T, kVecSize<T>>(device, x, sums, stream);
    } else {
      SumMatrix<T, 1>(device, x, sums, stream);
    }
  });
}

}  // namespace beamline::cuda
