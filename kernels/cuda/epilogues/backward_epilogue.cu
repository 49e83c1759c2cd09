#include "kernels/cuda/epilogues/backward_epilogue.h"

#include "base/math.h"
#include "kernels/cuda/device/scalar.cuh"
#include "kernels/cuda/epilogues/column_sums.h"

namespace beamline::cuda {
namespace {

constexpr int kNumWarps = 8;
constexpr int kThreads = kNumWarps * kWarpSize;
constexpr int kRowsAtOnce = 4;  // loads in flight in a thread
constexpr int64_t kLeastRows = 64;
constexpr int kBlocksPerMultiprocessor = 8;

template <typename T>
struct BackwardArgs {
  T* d;                 // [m, n]
  const uint8_t* mask;  // ReLU: [m, bytes]; null: GELU
  const T* gelu_input;  // [m, n]
  float* partials;      // [gridDim.y, n]; null: no sums
  int64_t m, n, d_stride, aux_stride;
  int64_t rows_per_block;
};

// The derivative of GELU's tanh form.
__device__ inline float GeluSlope(float x) {
  constexpr float kRoot = 0.7978845608028654f;  // sqrt(2 / pi)
  constexpr float kCube = 0.044715f;
  const float t = tanhf(kRoot * (x + kCube * x * x * x));
  return 0.5f * (1.0f + t) + 0.5f * x * (1.0f - t * t) * kRoot * (1.0f + 3.0f * kCube * x * x);
}

// The inputs of kSize columns of a row. All of them are loaded before the first use.
template <typename T, int kSize>
struct RowInputs {
  Vec<T, kSize> products, gelu_inputs;
  int mask;

  __device__ void Load(const BackwardArgs<T>& args, int64_t row, int64_t column) {
    products = *reinterpret_cast<const Vec<T, kSize>*>(args.d + row * args.d_stride + column);
    if (args.mask != nullptr) {
      // A byte holds 8 columns.
      mask = args.mask[row * args.aux_stride + column / 8] >> (column % 8);
    } else {
      gelu_inputs =
          *reinterpret_cast<const Vec<T, kSize>*>(args.gelu_input + row * args.aux_stride + column);
    }
  }
  __device__ void Compute(bool masked, float (&values)[kSize]) const {
#pragma unroll
    for (int j = 0; j < kSize; ++j) {
      const float value = ToFloat(products.values[j]);
      values[j] = !masked                  ? value * GeluSlope(ToFloat(gelu_inputs.values[j]))
                  : ((mask >> j) & 1) != 0 ? value
                                           : 0.0f;
    }
  }
};

// Grid: (pieces of kWarpSize * kSize columns, pieces of rows_per_block rows). A warp computes every
// kNumWarps-th row. Bound by memory: d is read and written once, aux is read once.
template <typename T, int kSize>
__global__ void __launch_bounds__(kThreads) BackwardKernel(BackwardArgs<T> args) {
  __shared__ float warp_sums[kNumWarps][kWarpSize * kSize];
  const int warp = threadIdx.x / kWarpSize, lane = threadIdx.x % kWarpSize;
  const int64_t first_column = blockIdx.x * int64_t{kWarpSize * kSize};
  const int64_t column = first_column + lane * kSize;
  const int64_t begin = blockIdx.y * args.rows_per_block;
  const int64_t end = begin + args.rows_per_block < args.m ? begin + args.rows_per_block : args.m;
  float sums[kSize] = {};
  if (column < args.n) {
    for (int64_t row = begin + warp; row < end; row += kNumWarps * kRowsAtOnce) {
      RowInputs<T, kSize> inputs[kRowsAtOnce];
#pragma unroll
      for (int i = 0; i < kRowsAtOnce; ++i) {
        if (row + i * kNumWarps < end) inputs[i].Load(args, row + i * kNumWarps, column);
      }
#pragma unroll
      for (int i = 0; i < kRowsAtOnce; ++i) {
        if (row + i * kNumWarps >= end) continue;
        float values[kSize];
        inputs[i].Compute(args.mask != nullptr, values);
        StoreFloats<kSize>(values, args.d + (row + i * kNumWarps) * args.d_stride + column);
#pragma unroll
        for (int j = 0; j < kSize; ++j) sums[j] += values[j];
      }
    }
  }
  if (args.partials == nullptr) return;
#pragma unroll
  for (int j = 0; j < kSize; ++j) warp_sums[warp][lane * kSize + j] = sums[j];
  __syncthreads();
  for (int i = threadIdx.x; i < kWarpSize * kSize && first_column + i < args.n; i += kThreads) {
    float total = 0.0f;
    for (int w = 0; w < kNumWarps; ++w) total += warp_sums[w][i];
    args.partials[blockIdx.y * args.n + first_column + i] = total;
  }
}

template <typename T, int kSize>
void Launch(Device& device, const LtProduct& p, BackwardArgs<T> args, cudaStream_t stream) {
  const auto pieces = static_cast<unsigned>(CeilDiv(p.n(), kWarpSize * kSize));
  const int64_t wanted = kBlocksPerMultiprocessor * device.num_multiprocessors() / pieces + 1;
  const int64_t most = CeilDiv(p.m(), kLeastRows);
  const int64_t blocks = wanted < most ? wanted : most;
  args.rows_per_block = CeilDiv(p.m(), blocks);
  const auto rows = static_cast<unsigned>(CeilDiv(p.m(), args.rows_per_block));
  const bool sums = WritesBias(p.epilogue);
  if (sums) args.partials = device.TakeScratch<float>(static_cast<size_t>(rows * p.n()));
  if (!device.ok()) return;
  BackwardKernel<T, kSize><<<dim3(pieces, rows), kThreads, 0, stream>>>(args);
  device.CheckLaunch("BackwardEpilogue");
  if (sums) SumPartials(device, args.partials, rows, p.bias, stream);
}

}  // namespace

void BackwardEpilogue(Device& device, const LtProduct& p, cudaStream_t stream) {
  BEAMLINE_CHECK(HasBackwardEpilogue(p));
  // For these two, the operand has k rows; the other layouts have no such epilogue.
  if (p.epilogue == LtEpilogue::kBgradA) return ColumnSums(device, p.a, p.bias, stream);
  if (p.epilogue == LtEpilogue::kBgradB) return ColumnSums(device, p.b, p.bias, stream);
  DispatchFloat(p.d.dtype, [&]<typename T>() {
    BackwardArgs<T> args = {};
    args.d = p.d.as<T>();
    args.mask = UsesReluMask(p.epilogue) ? p.aux.as<uint8_t>() : nullptr;
    args.gelu_input = UsesGeluInput(p.epilogue) ? p.aux.as<T>() : nullptr;
    args.m = p.m();
    args.n = p.n();
    args.d_stride = p.d.row_stride;
    args.aux_stride = p.aux.row_stride;
    const bool vectorizable =
        IsVectorizable(p.d) && (UsesReluMask(p.epilogue) || IsVectorizable(p.aux));
    if (vectorizable) {
      Launch<T, kVecSize<T>>(device, p, args, stream);
    } else {
      Launch<T, 1>(device, p, args, stream);
    }
  });
}

}  // namespace beamline::cuda
