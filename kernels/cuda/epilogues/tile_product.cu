// Products with their epilogue on Hopper's tensor cores (sm_90a alone). One block a multiprocessor
// works through its part of the tiles of d: a warp copies a and b ahead, two warpgroups multiply
// half of the tile's rows each.
#include "kernels/cuda/epilogues/tile_product.h"

#include <algorithm>

#include "base/check.h"
#include "base/math.h"
#include "kernels/cuda/device/tensor_map.h"
#include "kernels/cuda/epilogues/tile_product.cuh"

namespace beamline::cuda {
namespace {

using tile_product::Args;
using tile_product::Finish;
using tile_product::kColumns;
using tile_product::kDepth;
using tile_product::kGroups;
using tile_product::kRows;
using tile_product::Maps;

constexpr int64_t kMostTiles = int64_t{1} << 30;
constexpr int64_t kAccessBytes = 16, kElementBytes = 2;
constexpr int kCluster = 2;  // blocks
// About as many columns a panel as the GPU's clusters have rows beside them, so that what they read
// of a and b together is least.
constexpr int kPanelColumns = 2048;

bool IsAligned(const Tensor& tensor) {
  return reinterpret_cast<uintptr_t>(tensor.data) % kAccessBytes == 0 &&
         tensor.row_stride * static_cast<int64_t>(SizeOf(tensor.dtype)) % kAccessBytes == 0;
}

bool IsGradient(LtEpilogue epilogue) {
  return epilogue == LtEpilogue::kDRelu || epilogue == LtEpilogue::kDReluBgrad;
}

CUtensorMap MapOf(Device& device, const Tensor& matrix, int box_rows) {
  return MakeMatrixMap(device,
                       {matrix.data, matrix.dim(-2), matrix.dim(-1), matrix.row_stride, box_rows});
}

template <bool kTransposed, Finish kFinish, typename T>
void Launch(Device& device, const LtProduct& p, float* partials, cudaStream_t stream) {
  constexpr int kBytes = sizeof(tile_product::Shared<T>);
  const auto kernel = tile_product::ProductKernel<kCluster, kTransposed, kFinish, T>;
  device.Check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes),
               "TileProduct: shared memory");
  const Maps maps = {MapOf(device, p.a, kRows),
                     MapOf(device, p.b, kTransposed ? kColumns / kCluster : kDepth),
                     MapOf(device, p.d, tile_product::kGroupRows)};
  if (!device.ok()) return;
  Args<T> args = {};
  args.bias = ReadsBias(p.epilogue) ? p.bias.as<T>() : nullptr;
  args.mask = IsGradient(p.epilogue) ? p.aux.as<uint8_t>() : nullptr;
  args.mask_stride = p.aux.row_stride;
  args.partials = partials;
  args.alpha = p.alpha;
  args.relu = p.epilogue == LtEpilogue::kRelu || p.epilogue == LtEpilogue::kReluBias;
  args.m = static_cast<int>(p.m());
  args.n = static_cast<int>(p.n());
  args.steps = static_cast<int>(CeilDiv(p.k(), kDepth));
  args.tiles.rows = static_cast<int>(CeilDiv(p.m(), kRows * kCluster));
  args.tiles.columns = CeilDiv(args.n, kColumns);
  args.tiles.panel = std::min(kPanelColumns / kColumns, args.tiles.columns);
  const int clusters = std::min(args.tiles.size(), device.num_multiprocessors() / kCluster);
  kernel<<<static_cast<unsigned>(clusters * kCluster), tile_product::kThreads, kBytes, stream>>>(
      maps, args);
  device.CheckLaunch("TileProduct");
}

template <Finish kFinish, typename T>
void LaunchEither(Device& device, const LtProduct& p, float* partials, cudaStream_t stream) {
  p.transpose_b ? Launch<true, kFinish, T>(device, p, partials, stream)
                : Launch<false, kFinish, T>(device, p, partials, stream);
}

template <typename T>
void LaunchFinish(Device& device, const LtProduct& p, float* partials, cudaStream_t stream) {
  IsGradient(p.epilogue) ? LaunchEither<Finish::kGradient, T>(device, p, partials, stream)
                         : LaunchEither<Finish::kForward, T>(device, p, partials, stream);
}

}  // namespace

bool HasTileProduct(const Device& device, const LtProduct& p) {
  const bool epilogue = p.epilogue == LtEpilogue::kNone || p.epilogue == LtEpilogue::kBias ||
                        p.epilogue == LtEpilogue::kRelu || p.epilogue == LtEpilogue::kReluBias ||
                        IsGradient(p.epilogue);
  const bool types = SizeOf(p.a.dtype) == 2 && p.d.dtype == p.a.dtype &&
                     (p.bias.empty() || p.bias.dtype == p.d.dtype);
  const bool aligned =
      IsAligned(p.a) && IsAligned(p.b) && IsAligned(p.d) &&
      (p.aux.empty() || reinterpret_cast<uintptr_t>(p.aux.data) % kAccessBytes == 0);
  const bool fits = p.d.rank == 2 && p.n() % (kAccessBytes / kElementBytes) == 0 &&
                    p.m() < kMostTiles && p.n() < kMostTiles &&
                    CeilDiv(p.m(), kRows) * CeilDiv(p.n(), kColumns) < kMostTiles;
  return device.has_wgmma() && epilogue && types && aligned && fits && p.c.empty() &&
         !p.transpose_a && p.a_scale == nullptr && p.b_scale == nullptr && p.d_scale == nullptr;
}

bool FillsTiles(const Device& device, const LtProduct& p) {
  return CeilDiv(p.m(), kRows * kCluster) * CeilDiv(p.n(), kColumns) * kCluster >=
         device.num_multiprocessors();
}

int64_t NumTilePartials(const LtProduct& p) {
  return WritesBias(p.epilogue) ? CeilDiv(p.m(), kRows * kCluster) * kCluster * kGroups : 0;
}

void TileProduct(Device& device, const LtProduct& p, float* partials, cudaStream_t stream) {
  BEAMLINE_CHECK(HasTileProduct(device, p) && (partials != nullptr) == WritesBias(p.epilogue));
  p.d.dtype == DType::kFloat16 ? LaunchFinish<__half>(device, p, partials, stream)
                               : LaunchFinish<__nv_bfloat16>(device, p, partials, stream);
}

}  // namespace beamline::cuda
