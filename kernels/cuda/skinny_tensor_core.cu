// MatMul for 2 to 16 rows in float16 and bfloat16: tensor cores fed straight from global memory.
#include "kernels/cuda/activation.cuh"
#include "kernels/cuda/matmul.h"
#include "kernels/cuda/mma.cuh"

namespace beamline::cuda {
namespace {

// Few output features make few blocks, whose many warps then divide the input features.
constexpr int kFewWarps = 4;
constexpr int kManyWarps = 16;
constexpr int kFeatures = 16;  // of a block
constexpr int kDepth = 32;     // input features that a step multiplies: two products of 16
constexpr int kUnroll = 4;     // steps whose loads are in flight together

template <typename T, typename Y>
struct TileArgs {
  const T* x;
  const T* weight;
  const void* bias;
  const Y* residual;
  Y* y;
  int64_t x_stride, weight_stride, residual_stride, y_stride;
  int num_rows, in_features, out_features;  // out_features: columns of y
  DType bias_dtype;
  Activation activation;
  bool gated;
};

template <typename T>
__device__ float BiasOf(const void* bias, DType dtype, int feature) {
  if (bias == nullptr) return 0.0f;
  if (dtype == DType::kFloat32) return static_cast<const float*>(bias)[feature];
  return ToFloat(static_cast<const T*>(bias)[feature]);
}

__device__ inline uint4 Load16(const void* from) { return *static_cast<const uint4*>(from); }

// sums += weight rows [feature, feature + 16) times x^T, over steps of this warp. The order of the
// input features within a step is free as long as both operands share it: so a lane takes eight
// consecutive ones, a 16-byte load, where the instruction's layout would have it take pairs.
template <int kRowTiles, int kWarps, typename T, typename Y>
__device__ void MultiplyTile(const TileArgs<T, Y>& args, int feature, int warp, int lane,
                             float (&sums)[kRowTiles][4]) {
  const int group = lane / 4;
  const int begin = lane % 4 * 8;
  const T* low = args.weight + (feature + group) * args.weight_stride;
  const T* high = low + 8 * args.weight_stride;
  const uint4 zero = {0, 0, 0, 0};
  for (int first = warp * kDepth; first < args.in_features; first += kWarps * kDepth * kUnroll) {
    uint4 a_low[kUnroll], a_high[kUnroll], b[kUnroll][kRowTiles];
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      const int column = first + u * kWarps * kDepth + begin;
      const bool inside = column < args.in_features;
      a_low[u] = inside ? Load16(low + column) : zero;
      a_high[u] = inside ? Load16(high + column) : zero;
#pragma unroll
      for (int r = 0; r < kRowTiles; ++r) {
        const int row = r * 8 + group;
        b[u][r] =
            inside && row < args.num_rows ? Load16(args.x + row * args.x_stride + column) : zero;
      }
    }
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      const uint32_t first_half[4] = {a_low[u].x, a_high[u].x, a_low[u].y, a_high[u].y};
      const uint32_t second_half[4] = {a_low[u].z, a_high[u].z, a_low[u].w, a_high[u].w};
#pragma unroll
      for (int r = 0; r < kRowTiles; ++r) {
        MultiplyAdd<T>(first_half, b[u][r].x, b[u][r].y, sums[r]);
        MultiplyAdd<T>(second_half, b[u][r].z, b[u][r].w, sums[r]);
      }
    }
  }
}

// The warps of a block share 16 output features and divide the input features among them.
// Grid: a block per 16 features. Bound by memory: the weight is read once (K x N elements), x comes
// from cache. The weight's rows are padded to a multiple of 64, so that no tile reaches past them.
template <int kRowTiles, int kWarps, typename T, typename Y>
__global__ void __launch_bounds__(kWarps* kWarpSize) SkinnyTileKernel(TileArgs<T, Y> args) {
  constexpr int kThreads = kWarps * kWarpSize;
  __shared__ float partials[kWarps][2][kRowTiles * 8][kFeatures + 1];
  const int warp = threadIdx.x / kWarpSize;
  const int lane = threadIdx.x % kWarpSize;
  const int feature = blockIdx.x * kFeatures;
  for (int part = 0; part < (args.gated ? 2 : 1); ++part) {
    float sums[kRowTiles][4] = {};
    MultiplyTile<kRowTiles, kWarps>(args, feature + part * args.out_features, warp, lane, sums);
#pragma unroll
    for (int r = 0; r < kRowTiles; ++r) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        partials[warp][part][r * 8 + lane % 4 * 2 + i % 2][lane / 4 + i / 2 * 8] = sums[r][i];
      }
    }
  }
  __syncthreads();
  for (int i = threadIdx.x; i < args.num_rows * kFeatures; i += kThreads) {
    const int row = i / kFeatures;
    const int column = feature + i % kFeatures;
    if (column >= args.out_features) continue;
    float value = 0.0f, up = 0.0f;
#pragma unroll
    for (int w = 0; w < kWarps; ++w) {
      value += partials[w][0][row][i % kFeatures];
      if (args.gated) up += partials[w][1][row][i % kFeatures];
    }
    value = Activate(args.activation, value + BiasOf<T>(args.bias, args.bias_dtype, column));
    if (args.gated) {
      value *= up + BiasOf<T>(args.bias, args.bias_dtype, column + args.out_features);
    }
    if (args.residual != nullptr) {
      value += ToFloat(args.residual[row * args.residual_stride + column]);
    }
    args.y[row * args.y_stride + column] = FromFloat<Y>(value);
  }
}

template <typename T, typename Y>
void Launch(Device& device, const MatMulParams& params, const CudaWeight& weight) {
  TileArgs<T, Y> args = {};
  args.x = params.x.as<T>();
  args.weight = static_cast<const T*>(weight.data());
  args.bias = params.bias.data;
  args.residual = params.residual.as<Y>();
  args.y = params.y.as<Y>();
  args.x_stride = params.x.row_stride;
  args.weight_stride = weight.row_stride();
  args.residual_stride = params.residual.row_stride;
  args.y_stride = params.y.row_stride;
  args.num_rows = static_cast<int>(params.x.num_rows());
  args.in_features = static_cast<int>(weight.in_features());
  args.out_features = static_cast<int>(params.y.dim(-1));
  args.bias_dtype = params.bias.dtype;
  args.activation = params.activation;
  args.gated = params.gated;
  const auto blocks = static_cast<unsigned>((args.out_features + kFeatures - 1) / kFeatures);
  const auto launch = [&]<int kRowTiles, int kWarps>() {
    SkinnyTileKernel<kRowTiles, kWarps><<<blocks, kWarps * kWarpSize, 0, device.stream()>>>(args);
    device.CheckLaunch("MatMul (few rows)");
  };
  const bool many_warps = static_cast<int>(blocks) < device.num_multiprocessors() &&
                          args.in_features >= kManyWarps * kDepth;
  if (args.num_rows <= 8) {
    many_warps ? launch.template operator()<1, kManyWarps>()
               : launch.template operator()<1, kFewWarps>();
  } else {
    many_warps ? launch.template operator()<2, kManyWarps>()
               : launch.template operator()<2, kFewWarps>();
  }
}

}  // namespace

bool SkinnyTensorCoreMatMul(Device& device, const MatMulParams& params, const CudaWeight& weight) {
  if (!IsVectorizable(params.x)) return false;
  // A tile of the up projection must not reach past the padded rows.
  if (params.gated && weight.out_features() / 2 % kFeatures != 0) return false;
  const auto launch = [&]<typename T>() {
    if (params.y.dtype == weight.dtype()) {
      Launch<T, T>(device, params, weight);
    } else {
      BEAMLINE_CHECK(params.y.dtype == DType::kFloat32);
      Launch<T, float>(device, params, weight);
    }
  };
  if (weight.dtype() == DType::kFloat16) {
    launch.template operator()<__half>();
  } else if (weight.dtype() == DType::kBFloat16) {
    launch.template operator()<__nv_bfloat16>();
  } else {
    return false;
  }
  return true;
}

}  // namespace beamline::cuda
