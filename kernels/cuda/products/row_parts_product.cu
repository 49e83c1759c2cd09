// Products of one to four rows and a small weight after a norm, as in the decode steps of one
// request. All of a block's weight, gain and bias is in registers before WaitForEarlierKernels.
#include "kernels/cuda/products/row_parts_product.h"

#include "base/math.h"
#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/products/row_parts.cuh"
#include "kernels/cuda/products/skinny_output.cuh"

namespace beamline::cuda {
namespace {

// A block computes kTiles tiles of 16 output features, eight pairs or 16 units each. Its warps
// divide the columns. Grid: one block per kTiles tiles. Bound by the latencies of the rows, their
// norm and the sums.
template <typename T, typename Output, typename Parts, int kTiles>
__global__ void __launch_bounds__(Parts::kWarps* kWarpSize)
    RowPartsKernel(SkinnyOperands<T> args, Output output, NormOnLoad<T> norm) {
  constexpr int kRows = Parts::kRows;
  constexpr int kTileUnits = Output::kPaired ? kTileFeatures / 2 : kTileFeatures;
  constexpr int kUnits = kTiles * kTileUnits;
  static_assert(kRows * kUnits <= Parts::kWarps * kWarpSize);
  __shared__ float partials[Parts::kWarps][kTiles][kRows][kTileFeatures];
  const Parts parts;
  const int last_unit = args.num_units - 1;
  const int begin = static_cast<int>(blockIdx.x) * kUnits;
  WeightTile<Parts::kParts> weight[kTiles];
#pragma unroll
  for (int t = 0; t < kTiles; ++t) {
    // A tile with missing units computes the last unit in their place. Those sums are not read.
    const int unit = min(begin + t * kTileUnits + parts.group, last_unit);
    const int second = min(begin + t * kTileUnits + parts.group + 8, last_unit);
    const T* const low = args.Row(output.First(unit));
    const T* const high = args.Row(Output::kPaired ? output.Second(unit) : output.First(second));
    weight[t].Load(parts, low, high, args.in_features);
  }
  const int column = parts.Column(parts.part);
  const bool inside = column < args.in_features;
  uint4 gain = {}, bias = {};
  LoadEarlyIf(inside, norm.norm.gain + column, gain);
  LoadEarlyIf(inside && norm.norm.bias != nullptr, norm.norm.bias + column, bias);
  OwnUnit<Output, kUnits> own(output, begin, args.num_rows, args.num_units);
  WaitForEarlierKernels();
  own.LoadRest(output);
  uint4 x = {};
  const bool exists = inside && parts.row < args.num_rows;
  if (exists) x = *reinterpret_cast<const uint4*>(args.x + parts.row * args.x_stride + column);
  x = NormChunk(parts, norm, inside, gain, bias, x);
  if (!inside) x = {};
  if (blockIdx.x == 0 && exists) {
    *reinterpret_cast<uint4*>(norm.normed + parts.row * norm.normed_stride + column) = x;
  }
#pragma unroll
  for (int t = 0; t < kTiles; ++t) {
    float sums[4];
    weight[t].template Multiply<T>(parts.part, x, sums);
    StoreTile(parts, sums, partials[parts.warp][t]);
  }
  __syncthreads();
  if (!own.exists) return;
  const int tile = own.of_block / kTileUnits;
  const int feature = own.of_block % kTileUnits;
  float sum = 0.0f, second_sum = 0.0f;
#pragma unroll
  for (int w = 0; w < Parts::kWarps; ++w) {
    sum += partials[w][tile][own.row][feature];
    if (Output::kPaired) second_sum += partials[w][tile][own.row][feature + kTileFeatures / 2];
  }
  output.Store(own.row, own.unit, own.inputs, sum, second_sum);
}

template <typename T, typename Output>
void Launch(Device& device, const SkinnyOperands<T>& args, const Output& output,
            const NormOnLoad<T>& norm, int tiles_per_block) {
  constexpr int kTileUnits = Output::kPaired ? kTileFeatures / 2 : kTileFeatures;
  const int tiles = CeilDiv(args.num_units, kTileUnits);
  const int columns = args.in_features;
  const auto launch = [&]<typename Parts, int kTiles>() {
    LaunchOverlapped(device, "a product of few rows behind a norm",
                     RowPartsKernel<T, Output, Parts, kTiles>, CeilDiv(tiles, kTiles),
                     Parts::kWarps * kWarpSize, /*shared_bytes=*/0, args, output, norm);
  };
  if (args.num_rows == 1) {
    BEAMLINE_CHECK(tiles_per_block == 1);
    if (columns <= 512) return launch.template operator()<RowParts<1, 2>, 1>();
    if (columns <= 768) return launch.template operator()<RowParts<1, 3>, 1>();
    return launch.template operator()<RowParts<1, 4>, 1>();
  }
  const auto launch_tiles = [&]<int kWarps>() {
    tiles_per_block == 1
        ? launch.template operator()<RowParts<kMostPartsRows, kWarps>, 1>()
        : launch.template operator()<RowParts<kMostPartsRows, kWarps>, kMostPartsTiles>();
  };
  columns <= 512 ? launch_tiles.template operator()<8>() : launch_tiles.template operator()<16>();
}

template <typename Params>
void Multiply(Device& device, const Params& params, const CudaWeight& weight, int tiles_per_block) {
  BEAMLINE_CHECK(HasInputNorm(params));
  const auto launch = [&]<typename T>() {
    WithOutput<T>(params, [&]<typename Output>(const Output& output) {
      BEAMLINE_CHECK(Output::kTakesNorm);
      if constexpr (Output::kTakesNorm) {
        Launch(device, MakeSkinnyOperands<T>(params.x, weight, Output::kPaired), output,
               NormOnLoadOf<T>(params), tiles_per_block);
      }
    });
  };
  weight.dtype() == DType::kFloat16 ? launch.template operator()<__half>()
                                    : launch.template operator()<__nv_bfloat16>();
}

}  // namespace

void RowPartsProduct(Device& device, const MatMulParams& params, const CudaWeight& weight,
                     int tiles_per_block) {
  Multiply(device, params, weight, tiles_per_block);
}

void RowPartsProduct(Device& device, const ProjectHeadsParams& params, const CudaWeight& weight,
                     int tiles_per_block) {
  Multiply(device, params, weight, tiles_per_block);
}

}  // namespace beamline::cuda
