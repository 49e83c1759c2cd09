// Products of one row and a small weight behind a norm, as a decoder's steps of one request have
// them. A warp computes a unit's sums over the whole row, and norms the row for itself: it needs
// neither shared memory nor a barrier, and its weight, gain and bias are in registers before the
// kernel's turn.
#include "kernels/cuda/products/normed_row_product.h"

#include "base/math.h"
#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/products/skinny_output.cuh"
#include "kernels/cuda/rows/row_norm.cuh"
#include "kernels/input_norm.h"

namespace beamline::cuda {
namespace {

constexpr int kWarps = 4;
constexpr int kThreads = kWarps * kWarpSize;
constexpr int kChunk = 8;  // elements of an access of 16 bytes
constexpr int kMostColumns = kThreads * kChunk;
constexpr int kMostChunks = kMostColumns / kChunk / kWarpSize;  // of a lane
// With more blocks most would begin when others end, and do what should be done before.
constexpr int kMostBlocksEach = 8;  // of a multiprocessor

// The sum over the block's threads, in each. Every call needs partials of its own.
__device__ float SumOfBlock(float x, float (&partials)[kWarps]) {
  x = WarpSum(x);
  if (threadIdx.x % kWarpSize == 0) partials[threadIdx.x / kWarpSize] = x;
  __syncthreads();
  static_assert(kWarps == 4);
  return (partials[0] + partials[1]) + (partials[2] + partials[3]);
}

// A thread's chunk of the row, normed. The mean comes first, then the variance around it. All
// threads of the block call it, once.
template <typename T>
__device__ uint4 NormChunk(const RowNorm<T>& norm, const HeldGain<T>& gain_and_bias, bool inside,
                           const uint4& x) {
  __shared__ float sums[kWarps], squares[kWarps];
  float values[kChunk];
  LoadFloats<kChunk>(reinterpret_cast<const T*>(&x), values);
  const float count = static_cast<float>(norm.hidden_size);
  float mean = 0.0f;
  if (norm.centred) {
    float sum = 0.0f;
#pragma unroll
    for (float value : values) sum += value;
    mean = SumOfBlock(sum, sums) / count;
  }
  float square = 0.0f;
#pragma unroll
  for (float& value : values) {
    value -= mean;
    square += value * value;
  }
  const float variance = SumOfBlock(inside ? square : 0.0f, squares) / count;
  const float scale = 1.0f / sqrtf(variance + norm.epsilon);
  float gain[kChunk], bias[kChunk];
  gain_and_bias.Gain(0, gain);
  gain_and_bias.Bias(0, bias);
#pragma unroll
  for (int j = 0; j < kChunk; ++j) {
    values[j] = __fadd_rn(__fmul_rn(values[j] * scale, gain[j]), bias[j]);
  }
  uint4 normed;
  StoreFloats<kChunk>(values, reinterpret_cast<T*>(&normed));
  return normed;
}

// A lane's chunks of a weight's row.
template <int kChunks>
struct WeightChunks {
  uint4 chunks[kChunks];

  template <typename T>
  __device__ void Load(const T* row, int size, int lane) {
#pragma unroll
    for (int i = 0; i < kChunks; ++i) {
      const int column = (i * kWarpSize + lane) * kChunk;
      chunks[i] = {};
      LoadWeightIf(column < size, row + column, chunks[i]);
    }
  }
};

template <typename T, int kChunks>
__device__ float Dot(const WeightChunks<kChunks>& weight, const uint4 (&row)[kChunks]) {
  float sums[kChunks] = {};
#pragma unroll
  for (int i = 0; i < kChunks; ++i) {
    float a[kChunk], b[kChunk];
    LoadFloats<kChunk>(reinterpret_cast<const T*>(&weight.chunks[i]), a);
    LoadFloats<kChunk>(reinterpret_cast<const T*>(&row[i]), b);
#pragma unroll
    for (int j = 0; j < kChunk; ++j) sums[i] += a[j] * b[j];
  }
  float sum = sums[0];
#pragma unroll
  for (int i = 1; i < kChunks; ++i) sum += sums[i];
  return WarpSum(sum);
}

// Grid: a warp for each unit. Bound by latencies: the row's, its norm's and the sums'.
template <typename T, int kChunks, typename Output>
__global__ void __launch_bounds__(kThreads, Output::kPaired ? 6 : 8)
    NormedRowKernel(SkinnyOperands<T> args, Output output, RowNorm<T> norm, T* normed) {
  __shared__ uint4 row[kThreads];
  const int thread = static_cast<int>(threadIdx.x);
  const int lane = thread % kWarpSize;
  const int wanted_unit = static_cast<int>(blockIdx.x) * kWarps + thread / kWarpSize;
  // Warps without a unit of their own compute the last one too, and store nothing.
  const int unit = min(wanted_unit, args.num_units - 1);
  const bool finishes = wanted_unit < args.num_units && lane == 0;
  WeightChunks<kChunks> first;
  [[maybe_unused]] WeightChunks<kChunks> second;
  first.Load(args.Row(output.First(unit)), args.in_features, lane);
  if constexpr (Output::kPaired) {
    second.Load(args.Row(output.Second(unit)), args.in_features, lane);
  }
  HeldGain<T> gain_and_bias;
  gain_and_bias.Load(norm, thread * kChunk);
  typename Output::Inputs inputs = {};
  if (finishes) inputs = output.LoadWeights(/*row=*/0, unit);
  WaitForEarlierKernels();
  if (finishes) output.LoadRest(/*row=*/0, unit, inputs);
  const bool inside = thread * kChunk < args.in_features;
  uint4 x = {};
  if (inside) x = *reinterpret_cast<const uint4*>(args.x + thread * kChunk);
  x = NormChunk(norm, gain_and_bias, inside, x);
  row[thread] = inside ? x : uint4{};
  if (blockIdx.x == 0 && inside) *reinterpret_cast<uint4*>(normed + thread * kChunk) = x;
  __syncthreads();
  uint4 own[kChunks];
#pragma unroll
  for (int i = 0; i < kChunks; ++i) own[i] = row[i * kWarpSize + lane];
  const float sum = Dot<T>(first, own);
  float second_sum = 0.0f;
  if constexpr (Output::kPaired) second_sum = Dot<T>(second, own);
  if (finishes) output.Store(/*row=*/0, unit, inputs, sum, second_sum);
}

template <typename Params>
bool Multiply(Device& device, const Params& params, const CudaWeight& weight) {
  const int64_t hidden_size = params.x.dim(-1);
  if (!HasInputNorm(params) || params.x.num_rows() != 1 || SizeOf(weight.dtype()) != 2 ||
      hidden_size > kMostColumns) {
    return false;
  }
  for (const Tensor* tensor :
       {&params.x, &params.input_norm.gain, &params.input_norm.bias, &params.normed}) {
    if (!IsVectorizable(*tensor)) return false;
  }
  const auto launch = [&]<typename T>() {
    return WithOutput<T>(params, [&]<typename Output>(const Output& output) {
      const auto args = MakeSkinnyOperands<T>(params.x, weight, Output::kPaired);
      const int blocks = CeilDiv(args.num_units, kWarps);
      if constexpr (!Output::kTakesNorm) {
        return false;
      } else {
        if (blocks > kMostBlocksEach * device.num_multiprocessors()) return false;
        const auto norm = MakeRowNorm<T>(params.input_norm, hidden_size);
        const auto launch_chunks = [&]<int kChunks>() {
          LaunchOverlapped(device, "a product of one row behind a norm",
                           NormedRowKernel<T, kChunks, Output>, blocks, kThreads,
                           /*shared_bytes=*/0, args, output, norm, params.normed.template as<T>());
        };
        switch (CeilDiv(hidden_size, int64_t{kWarpSize} * kChunk)) {
          case 1:
          case 2:
            launch_chunks.template operator()<2>();
            break;
          case 3:
            launch_chunks.template operator()<3>();
            break;
          default:
            launch_chunks.template operator()<kMostChunks>();
        }
        return true;
      }
    });
  };
  return weight.dtype() == DType::kFloat16 ? launch.template operator()<__half>()
                                           : launch.template operator()<__nv_bfloat16>();
}

}  // namespace

bool NormedRowProduct(Device& device, const MatMulParams& params, const CudaWeight& weight) {
  return Multiply(device, params, weight);
}

bool NormedRowProduct(Device& device, const ProjectHeadsParams& params, const CudaWeight& weight) {
  return HasPairs(params) && Multiply(device, params, weight);
}

}  // namespace beamline::cuda
