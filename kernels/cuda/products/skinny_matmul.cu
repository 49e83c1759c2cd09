// Products of a few rows: a matrix-vector kernel that reads the weight once.
#include "base/math.h"
#include "kernels/cuda/device/scalar.cuh"
#include "kernels/cuda/products/matmul.h"
#include "kernels/cuda/products/shared_norm.cuh"
#include "kernels/cuda/products/skinny_output.cuh"

namespace beamline::cuda {
namespace {

constexpr int kWarps = 4;
template <typename InputNorm>
constexpr int kThreads = (InputNorm::kNorms ? kNormingWarps : kWarps) * kWarpSize;
// With at most this many blocks per multiprocessor, the first chunks of a weight's row are in
// registers before WaitForEarlierKernels.
constexpr int kEarlyBlocksPerSm = 8;
constexpr int kEarlyChunks = 4;
// Blocks that a multiprocessor has to hold, which bounds the registers of a thread. In 16 bits more
// warps are worth more than more loads in flight in each. In float32 fewer blocks leave registers
// for several chunks in flight.
template <int kRows, typename T, typename Output, typename InputNorm, bool kEarly>
constexpr int kFewestBlocks = InputNorm::kNorms ? (Output::kPaired ? 1 : 2)
                              : kEarly          ? kEarlyBlocksPerSm
                              : kRows == 1      ? (sizeof(T) == 2 ? 16 : 8)
                                                : 5;
// With fewer units per SM than this, one warp per unit leaves the GPU idle. The block's warps then
// share each feature's row.
constexpr int kFewUnitsPerSm = 16;

// sums[r] = this thread's part of x[r] . weight row, over chunks first, first + step, ...
template <int kRows, typename T>
__device__ void Accumulate(const SkinnyOperands<T>& args, int feature, int first, int step,
                           float (&sums)[kRows]) {
  constexpr int kSize = kVecSize<T>;
  const T* weight = args.Row(feature);
#pragma unroll 4
  for (int column = first * kSize; column < args.in_features; column += step * kSize) {
    float w[kSize];
    const uint4 raw = LoadWeight(weight + column);
    LoadFloats<kSize>(reinterpret_cast<const T*>(&raw), w);
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      if (r >= args.num_rows) break;
      float x[kSize];
      LoadFloats<kSize>(args.x + r * args.x_stride + column, x);
#pragma unroll
      for (int j = 0; j < kSize; ++j) sums[r] += w[j] * x[j];
    }
  }
}

// A lane's first accesses to a weight's row of 16 bits, loaded before WaitForEarlierKernels.
struct EarlyChunks {
  uint4 chunks[kEarlyChunks];

  template <typename T>
  __device__ void Load(const T* row, int size, int first, int step) {
#pragma unroll
    for (int i = 0; i < kEarlyChunks; ++i) {
      const int column = (first + i * step) * kVecSize<T>;
      chunks[i] = {};
      LoadWeightIf(column < size, row + column, chunks[i]);
    }
  }
};

// Accumulate for one row, with the weight's first chunks already loaded.
template <typename T>
__device__ void AccumulateEarly(const SkinnyOperands<T>& args, int feature, int first, int step,
                                const EarlyChunks& early, float (&sums)[1]) {
  constexpr int kSize = kVecSize<T>;
  uint4 x[kEarlyChunks];
#pragma unroll
  for (int i = 0; i < kEarlyChunks; ++i) {
    const int column = (first + i * step) * kSize;
    x[i] = {};
    if (column < args.in_features) x[i] = *reinterpret_cast<const uint4*>(args.x + column);
  }
  __syncwarp();  // keeps the compiler from moving loads past it
#pragma unroll
  for (int i = 0; i < kEarlyChunks; ++i) {
    float a[kSize], b[kSize];
    LoadFloats<kSize>(reinterpret_cast<const T*>(&early.chunks[i]), a);
    LoadFloats<kSize>(reinterpret_cast<const T*>(&x[i]), b);
#pragma unroll
    for (int j = 0; j < kSize; ++j) sums[0] += a[j] * b[j];
  }
  Accumulate<1>(args, feature, first + kEarlyChunks * step, step, sums);
}

// Accumulate in float32, whose rows have twice as many chunks. Several are loaded before the first
// is used.
template <int kRows>
__device__ void Accumulate(const SkinnyOperands<float>& args, int feature, int first, int step,
                           float (&sums)[kRows]) {
  constexpr int kSize = kVecSize<float>;
  constexpr int kUnroll = kRows == 1 ? 4 : kRows <= 4 ? 2 : 1;
  const auto load = [](const float* from, bool valid) {
    return valid ? *reinterpret_cast<const float4*>(from) : float4{};
  };
  const float* weight = args.Row(feature);
  // All lanes of a warp take the same number of turns, so that the warp stays converged.
  for (int base = 0; base < args.in_features; base += step * kSize * kUnroll) {
    float4 w[kUnroll], x[kUnroll][kRows];
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      const int column = base + (first + u * step) * kSize;
      const bool inside = column < args.in_features;
      w[u] = load(weight + column, inside);
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        x[u][r] =
            load(args.x + r * args.x_stride + column, inside && (kRows == 1 || r < args.num_rows));
      }
    }
    __syncwarp();  // keeps the compiler from moving loads past it
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        sums[r] += w[u].x * x[u][r].x;
        sums[r] += w[u].y * x[u][r].y;
        sums[r] += w[u].z * x[u][r].z;
        sums[r] += w[u].w * x[u][r].w;
      }
    }
  }
}

// A lane's first accesses to a weight's row, in flight while the rows to multiply are normalised.
struct WeightChunks {
  static constexpr int kSize = kVecSize<float>;
  static constexpr int kChunks = 4;

  __device__ void Load(const float* row, int size, int first, int step) {
#pragma unroll
    for (int i = 0; i < kChunks; ++i) {
      const int column = (first + i * step) * kSize;
      chunks[i] = column < size ? *reinterpret_cast<const float4*>(row + column) : float4{};
    }
  }

  float4 chunks[kChunks];
};

// Accumulate for normalised rows in shared memory, with the first chunks of the weight's row
// already loaded.
template <int kRows>
__device__ void AccumulateNormed(const SkinnyOperands<float>& args, const float* normed, int stride,
                                 int feature, int first, int step, WeightChunks& weight,
                                 float (&sums)[kRows]) {
  constexpr int kSize = WeightChunks::kSize;
  const int turn = step * WeightChunks::kChunks;
  for (int chunk = first; chunk * kSize < args.in_features; chunk += turn) {
    if (chunk != first) weight.Load(args.Row(feature), args.in_features, chunk, step);
#pragma unroll
    for (int i = 0; i < WeightChunks::kChunks; ++i) {
      const int column = (chunk + i * step) * kSize;
      if (column >= args.in_features) break;
      const float4 w = weight.chunks[i];
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        if (r >= args.num_rows) break;
        const float4 x = *reinterpret_cast<const float4*>(normed + r * stride + column);
        sums[r] += w.x * x.x;
        sums[r] += w.y * x.y;
        sums[r] += w.z * x.z;
        sums[r] += w.w * x.w;
      }
    }
  }
}

// Accumulates both sums of a unit (one if units are not pairs) for all rows, over this thread's
// part of the input features.
template <int kRows, bool kEarly, typename T, typename Output, typename InputNorm>
__device__ void AccumulateUnit(const SkinnyOperands<T>& args, const Output& output,
                               const InputNorm& input_norm, int unit, int begin, int step,
                               const EarlyChunks (&early)[2], float (&sums)[kRows],
                               float (&seconds)[kRows]) {
  if constexpr (kEarly) {
    AccumulateEarly(args, output.First(unit), begin, step, early[0], sums);
    if (Output::kPaired) {
      AccumulateEarly(args, output.Second(unit), begin, step, early[1], seconds);
    }
  } else if constexpr (InputNorm::kNorms) {
    WeightChunks first, second;
    const float* normed = NormaliseRows(args.x, args.x_stride, args.num_rows, input_norm, [&] {
      first.Load(args.Row(output.First(unit)), args.in_features, begin, step);
      if (Output::kPaired) {
        second.Load(args.Row(output.Second(unit)), args.in_features, begin, step);
      }
    });
    const int stride = args.in_features;
    AccumulateNormed(args, normed, stride, output.First(unit), begin, step, first, sums);
    if (Output::kPaired) {
      AccumulateNormed(args, normed, stride, output.Second(unit), begin, step, second, seconds);
    }
  } else {
    Accumulate<kRows>(args, output.First(unit), begin, step, sums);
    if (Output::kPaired) Accumulate<kRows>(args, output.Second(unit), begin, step, seconds);
  }
}

// kUnitWarps warps share a unit. Grid: one block per kWarps / kUnitWarps units. Bound by memory:
// the weight is read once (K x N elements), x comes from the cache.
template <int kRows, int kUnitWarps, bool kEarly, typename T, typename Output, typename InputNorm>
__global__ void __launch_bounds__(kThreads<InputNorm>,
                                  kFewestBlocks<kRows, T, Output, InputNorm, kEarly>)
    SkinnyKernel(SkinnyOperands<T> args, Output output, InputNorm input_norm) {
  constexpr int kWarps = kThreads<InputNorm> / kWarpSize;
  __shared__ float partials[kWarps][2][kRows];
  const int warp = threadIdx.x / kWarpSize;
  const int lane = threadIdx.x % kWarpSize;
  const int wanted_unit = (blockIdx.x * kWarps + warp) / kUnitWarps;
  const bool exists = wanted_unit < args.num_units;
  // Warps without a unit of their own compute the last one as well, and store nothing.
  const int unit = min(wanted_unit, args.num_units - 1);
  const int begin = warp % kUnitWarps * kWarpSize + lane;
  constexpr int kStep = kUnitWarps * kWarpSize;
  EarlyChunks early[2];
  typename Output::Inputs inputs = {};
  // Lane r completes row r.
  const bool finishes = exists && warp % kUnitWarps == 0 && lane < args.num_rows;
  if constexpr (kEarly) {
    early[0].Load(args.Row(output.First(unit)), args.in_features, begin, kStep);
    if (Output::kPaired) {
      early[1].Load(args.Row(output.Second(unit)), args.in_features, begin, kStep);
    }
    if (finishes) inputs = output.LoadWeights(lane, unit);
  } else if (exists && blockIdx.x < kEarlyBlocks) {
    const int columns = min(args.in_features, kEarlyColumns);
    PrefetchRow(args.Row(output.First(unit)), columns, begin, kStep);
    if (Output::kPaired) PrefetchRow(args.Row(output.Second(unit)), columns, begin, kStep);
    if (begin == 0) output.Prefetch(unit);
  }
  if constexpr (InputNorm::kNorms) input_norm.Prefetch();
  WaitForEarlierKernels();
  if (!InputNorm::kNorms && !exists) return;
  if (finishes) {
    if constexpr (!kEarly) inputs = output.LoadWeights(lane, unit);
    output.LoadRest(lane, unit, inputs);
  }

  float sums[kRows] = {}, seconds[kRows] = {};
  AccumulateUnit<kRows, kEarly>(args, output, input_norm, unit, begin, kStep, early, sums, seconds);
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    sums[r] = WarpSum(sums[r]);
    if (Output::kPaired) seconds[r] = WarpSum(seconds[r]);
  }
  if constexpr (kUnitWarps > 1) {
    if (lane == 0) {
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        partials[warp][0][r] = sums[r];
        partials[warp][1][r] = seconds[r];
      }
    }
    __syncthreads();
    if (warp % kUnitWarps != 0) return;
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      for (int w = 1; w < kUnitWarps; ++w) {
        sums[r] += partials[warp + w][0][r];
        seconds[r] += partials[warp + w][1][r];
      }
    }
  }
  if (!finishes) return;
  float sum = 0.0f, second = 0.0f;
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    if (lane != r) continue;
    sum = sums[r];
    second = seconds[r];
  }
  output.Store(lane, unit, inputs, sum, second);
}

template <int kRows, typename T, typename Output>
void LaunchRows(Device& device, const SkinnyOperands<T>& args, const Output& output) {
  const auto launch = [&]<int kUnitWarps>() {
    const int blocks = CeilDiv(args.num_units * kUnitWarps, kWarps);
    const auto launch_as = [&]<bool kEarly>() {
      LaunchOverlapped(device, "a product of few rows",
                       SkinnyKernel<kRows, kUnitWarps, kEarly, T, Output, NoNorm>, blocks,
                       kThreads<NoNorm>, /*shared_bytes=*/0, args, output, NoNorm());
    };
    if constexpr (kRows == 1 && sizeof(T) == 2) {
      if (blocks <= kEarlyBlocksPerSm * device.num_multiprocessors()) {
        return launch_as.template operator()<true>();
      }
    }
    launch_as.template operator()<false>();
  };
  args.num_units < kFewUnitsPerSm* device.num_multiprocessors()
      ? launch.template operator()<kWarps>()
      : launch.template operator()<1>();
}

// The same after the norm of `params`.
template <int kRows, typename T, typename Output, typename Params>
void LaunchRowsWithNorm(Device& device, const SkinnyOperands<T>& args, const Output& output,
                        const Params& params) {
  const SharedNorm norm(NormOnLoadOf<T>(params));
  const int most_blocks = kMostNormingBlocks * device.num_multiprocessors();
  const auto launch = [&]<int kUnitWarps>() {
    const int blocks = CeilDiv(args.num_units * kUnitWarps, kNormingWarps);
    const auto kernel = SkinnyKernel<kRows, kUnitWarps, false, T, Output, SharedNorm>;
    LaunchOverlapped(device, "a product of few rows behind a norm", kernel, blocks,
                     kThreads<SharedNorm>, SharedRows(device, kernel, norm, args.num_rows), args,
                     output, norm);
  };
  const bool few_units = args.num_units * kWarps <= most_blocks * kNormingWarps;
  few_units ? launch.template operator()<kWarps>() : launch.template operator()<1>();
}

template <typename Params>
void Multiply(Device& device, const Params& params, const CudaWeight& weight) {
  static_assert(kMostSkinnyRows == 8);
  BEAMLINE_CHECK(params.x.num_rows() <= kMostSkinnyRows);
  DispatchFloat(weight.dtype(), [&]<typename T>() {
    WithOutput<T>(params, [&]<typename Output>(const Output& output) {
      const auto args = MakeSkinnyOperands<T>(params.x, weight, Output::kPaired);
      const auto launch = [&]<int kRows>() {
        if (!HasInputNorm(params)) return LaunchRows<kRows>(device, args, output);
        constexpr bool kNorms = Output::kTakesNorm && std::is_same_v<T, float>;
        BEAMLINE_CHECK(kNorms);
        if constexpr (kNorms) LaunchRowsWithNorm<kRows>(device, args, output, params);
      };
      if (args.num_rows == 1) return launch.template operator()<1>();
      args.num_rows <= 4 ? launch.template operator()<4>() : launch.template operator()<8>();
    });
  });
}

}  // namespace

void SkinnyProduct(Device& device, const MatMulParams& params, const CudaWeight& weight) {
  Multiply(device, params, weight);
}

void SkinnyProduct(Device& device, const ProjectHeadsParams& params, const CudaWeight& weight) {
  Multiply(device, params, weight);
}

}  // namespace beamline::cuda
