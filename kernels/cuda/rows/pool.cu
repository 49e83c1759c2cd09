// Pooling of token vectors into one vector per sequence, normalised to unit length if asked.
#include <algorithm>

#include "base/math.h"
#include "kernels/cuda/device/host_landing.cuh"
#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/device/scalar.cuh"
#include "kernels/cuda/rows/row_norm.cuh"
#include "kernels/cuda/rows/row_ops.h"

namespace beamline::cuda {
namespace {

constexpr int kThreads = 1024;
constexpr int kTokensAtOnce = 8;         // whose loads are under way together
constexpr int kMostSharedFloats = 8192;  // of all groups' partial rows, unless one row has more

template <typename T>
struct PoolArgs {
  Pooling pooling;
  bool normalize;
  const T* hidden;
  int64_t hidden_stride;
  const int32_t* offsets;
  int hidden_size;
  float* output;
  int64_t output_stride;
  HostPlace landing;  // of the one sequence's vector; nowhere for several
};

// The block's threads in groups: a group reads a whole row, a thread kSize columns at a time, and
// takes every count-th token of the sequence. The number of groups, and with it the order of
// additions, depends on the row's length alone.
struct Groups {
  int threads;  // of a group
  int count;
};

Groups GroupsFor(int hidden_size, int size) {
  const int threads = std::min(kThreads, CeilDiv(hidden_size, size));
  const int count = std::min(kThreads / threads, kMostSharedFloats / hidden_size);
  return {threads, std::max(1, count)};
}

__device__ inline float Join(Pooling pooling, float a, float b) {
  // fmaxf() would drop a NaN, which tells that the model overflowed.
  return pooling == Pooling::kMax ? (a > b || isnan(a) ? a : b) : a + b;
}

// Grid: a block per sequence; shared memory: a row of floats for each group. Bound by memory where
// there are enough sequences to fill the GPU: hidden read once, the output written once.
template <typename T, int kSize>
__global__ void __launch_bounds__(kThreads) PoolKernel(PoolArgs<T> args, Groups groups) {
  extern __shared__ float partial_rows[];  // [groups.count, hidden_size]
  __shared__ float partials[kWarpSize];
  const int hidden_size = args.hidden_size;
  const int first = LoadEarly(args.offsets + blockIdx.x);
  const int last = LoadEarly(args.offsets + blockIdx.x + 1);
  WaitForEarlierKernels();
  int begin = first, end = last;
  if (args.pooling == Pooling::kCls) end = min(last, first + 1);
  if (args.pooling == Pooling::kLast) begin = max(first, last - 1);
  const float nothing = args.pooling == Pooling::kMax ? -INFINITY : 0.0f;

  const int group = static_cast<int>(threadIdx.x) / groups.threads;
  if (group < groups.count) {
    const int thread = static_cast<int>(threadIdx.x) - group * groups.threads;
    for (int column = thread * kSize; column < hidden_size; column += groups.threads * kSize) {
      float values[kSize];
#pragma unroll
      for (int j = 0; j < kSize; ++j) values[j] = nothing;
      for (int token = begin + group; token < end; token += kTokensAtOnce * groups.count) {
        Vec<T, kSize> rows[kTokensAtOnce];
#pragma unroll
        for (int i = 0; i < kTokensAtOnce; ++i) {
          const int64_t row = token + i * groups.count;
          if (row >= end) break;
          rows[i] = *reinterpret_cast<const Vec<T, kSize>*>(args.hidden + row * args.hidden_stride +
                                                            column);
        }
#pragma unroll
        for (int i = 0; i < kTokensAtOnce; ++i) {
          if (token + i * groups.count >= end) break;
#pragma unroll
          for (int j = 0; j < kSize; ++j) {
            values[j] = Join(args.pooling, values[j], ToFloat(rows[i].values[j]));
          }
        }
      }
#pragma unroll
      for (int j = 0; j < kSize; ++j) partial_rows[group * hidden_size + column + j] = values[j];
    }
  }
  __syncthreads();

  const float count = static_cast<float>(last - first);
  const float divisor = args.pooling == Pooling::kMean             ? count
                        : args.pooling == Pooling::kMeanSqrtLength ? sqrtf(count)
                                                                   : 1.0f;
  float squares = 0.0f;
  for (int column = threadIdx.x; column < hidden_size; column += kThreads) {
    float value = nothing;
    for (int g = 0; g < groups.count; ++g) {
      value = Join(args.pooling, value, partial_rows[g * hidden_size + column]);
    }
    value = last > first ? value / divisor : 0.0f;  // a sequence without tokens gets zeros
    squares += value * value;
    partial_rows[column] = value;  // this thread alone reads and writes the column
  }
  float length = 1.0f;
  if (args.normalize) length = sqrtf(BlockSum(squares, partials));
  if (length == 0.0f) length = 1.0f;
  float* const to = args.output + blockIdx.x * args.output_stride;
  for (int column = threadIdx.x; column < hidden_size; column += kThreads) {
    const float value = partial_rows[column] / length;
    to[column] = value;
    if (args.landing.to != nullptr) static_cast<float*>(args.landing.to)[column] = value;
  }
  if (args.landing.to != nullptr) Announce(args.landing);
}

}  // namespace

void Compute(Device& device, const PoolParams& params, const HostPlace& landing) {
  if (params.num_sequences == 0) return;
  DispatchFloat(params.hidden.dtype, [&]<typename T>() {
    PoolArgs<T> args = {};
    args.pooling = params.pooling;
    args.normalize = params.normalize;
    args.hidden = params.hidden.as<T>();
    args.hidden_stride = params.hidden.row_stride;
    args.offsets = params.offsets;
    args.hidden_size = static_cast<int>(params.hidden.dim(-1));
    args.output = params.output.as<float>();
    args.output_stride = params.output.row_stride;
    args.landing = landing;
    const auto launch = [&]<int kSize>() {
      const Groups groups = GroupsFor(args.hidden_size, kSize);
      const int64_t shared_bytes =
          SharedRowBytes(device, PoolKernel<T, kSize>, int64_t{groups.count} * args.hidden_size);
      LaunchOverlapped(device, "Pool", PoolKernel<T, kSize>, params.num_sequences, kThreads,
                       static_cast<int64_t>(shared_bytes), args, groups);
    };
    if (IsVectorizable(params.hidden)) {
      launch.template operator()<kVecSize<T>>();
    } else {
      launch.template operator()<1>();
    }
  });
}

}  // namespace beamline::cuda
