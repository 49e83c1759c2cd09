#include "kernels/cuda/products/matmul.h"

#include "base/check.h"
#include "kernels/cuda/products/cluster_product.h"
#include "kernels/cuda/products/float_parts_product.h"
#include "kernels/cuda/products/float_rows_product.h"
#include "kernels/cuda/products/row_parts_product.h"
#include "kernels/cuda/products/stream_product.h"
#include "kernels/cuda/products/stream_tiles_product.h"
#include "kernels/cuda/products/wgmma_product.h"
#include "kernels/cuda/rows/row_ops.h"
#include "kernels/input_norm.h"

namespace beamline::cuda {
namespace {

constexpr int64_t kAccessBytes = 16;

bool IsAligned(const Tensor& tensor) {
  return reinterpret_cast<uintptr_t>(tensor.data) % kAccessBytes == 0 &&
         tensor.row_stride * static_cast<int64_t>(SizeOf(tensor.dtype)) % kAccessBytes == 0;
}

WeightLayout LayoutOf(const CudaWeight& weight) {
  return {weight.dtype(), weight.in_features(), weight.out_features(), weight.row_stride(),
          weight.padded_rows()};
}

// Normalises the heads of `params` whose norm is over all heads together, in place in the product.
// Returns what is left to compute.
ProjectHeadsParams NormAllHeads(Device& device, const ProjectHeadsParams& params) {
  ProjectHeadsParams rest = params;
  int64_t begin = 0;
  const auto norm = [&](FusedNorm& of, int num_heads) {
    const int64_t size = int64_t{num_heads} * params.head_dim;
    const Tensor heads = params.workspace.Columns(begin, size);
    begin += size;
    if (!IsOfAllHeads(of, params.head_dim)) return;
    Compute(device, NormParams{.kind = of.kind,
                               .x = heads,
                               .gain = of.gain,
                               .bias = of.bias,
                               .epsilon = of.epsilon,
                               .y = heads});
    of = {};
  };
  norm(rest.query_norm, params.num_heads);
  norm(rest.key_norm, params.num_kv_heads);
  return rest;
}

// The parts of the finishing pass that cuBLASLt's epilogue takes over.
struct Fused {
  bool bias = false;
  bool activation = false;
  bool residual = false;
};

// For a product whose d, of `columns` columns, is in y. `whole`: y itself has as many columns.
Fused ChooseFused(const MatMulParams& params, int64_t columns, bool whole) {
  Fused fused;
  const bool none = params.activation == Activation::kNone;
  // cuBLASLt only reads a bias of y's type, and its GELU is the tanh form.
  fused.bias = !params.bias.empty() && params.bias.dtype == params.y.dtype &&
               (whole || params.bias.row_stride >= columns) &&
               reinterpret_cast<uintptr_t>(params.bias.data) % kAccessBytes == 0;
  const bool bias_done = fused.bias || params.bias.empty();
  // cuBLASLt's tanh is too coarse for float32 (docs/results/notes-cuda.md).
  const bool fused_gelu =
      params.activation == Activation::kGeluTanh && params.y.dtype != DType::kFloat32;
  fused.activation = bias_done && (none || params.activation == Activation::kRelu || fused_gelu);
  // cuBLASLt adds the residual before the activation, MatMul adds it after the activation and the
  // cap.
  fused.residual = whole && params.softcap == 0.0f && bias_done && none &&
                   !params.residual.empty() && params.residual.dtype == params.y.dtype &&
                   IsAligned(params.residual);
  return fused;
}

LtEpilogue EpilogueOf(Activation activation, bool has_bias) {
  switch (activation) {
    case Activation::kRelu:
      return has_bias ? LtEpilogue::kReluBias : LtEpilogue::kRelu;
    case Activation::kGeluTanh:
      return has_bias ? LtEpilogue::kGeluBias : LtEpilogue::kGelu;
    default:
      BEAMLINE_CHECK(activation == Activation::kNone);
      return has_bias ? LtEpilogue::kBias : LtEpilogue::kNone;
  }
}

// x as a product of whole tiles reads it: with the weight's row stride if that has padding.
Tensor PaddedRows(Device& device, const Tensor& x, const CudaWeight& weight) {
  const bool padded = weight.row_stride() != weight.in_features();
  return padded || !IsAligned(x) ? PadColumns(device, x, weight.row_stride()) : x;
}

// The product with the exact GELU.
void LaunchWgmma(Device& device, const MatMulParams& params, const CudaWeight& weight,
                 WgmmaTiles tiles) {
  const Tensor x = PaddedRows(device, params.x, weight);
  if (!device.ok()) return;
  Tensor rows(const_cast<void*>(weight.data()), weight.dtype(), {weight.out_features(), x.dim(-1)});
  rows.row_stride = weight.row_stride();
  WgmmaGeluProduct(device, {.x = x, .weight = rows, .bias = params.bias, .y = params.y}, tiles);
}

// The product by cuBLASLt; the finishing pass computes what cuBLASLt's epilogue leaves out.
void LaunchLt(Device& device, LtMatMul& lt, const MatMulParams& params, const CudaWeight& weight) {
  const int64_t num_rows = params.x.num_rows();
  const Tensor x = PaddedRows(device, params.x, weight);
  // cuBLASLt is many times slower with odd output features (see CudaWeight), so such a product
  // includes the weight's padding. If y has no room for the padding, or for a gate, the product
  // goes to scratch memory and the finishing pass writes y.
  const bool whole =
      weight.out_features() * static_cast<int64_t>(SizeOf(params.y.dtype)) % kAccessBytes == 0;
  bool in_place = IsLtInPlace(params, LayoutOf(weight));
  const int64_t padded_columns = whole ? weight.out_features() : weight.padded_rows();
  Fused fused = in_place ? ChooseFused(params, padded_columns, whole) : Fused();
  // A residual that is stored in y must stay there until it is added.
  if (!params.residual.empty() && params.residual.data == params.y.data && !fused.residual) {
    in_place = false;
    fused = {};
  }
  const int64_t columns = in_place ? padded_columns : weight.padded_rows();
  Tensor product = params.y;
  if (!in_place) {
    const DType dtype = params.gated ? weight.dtype() : params.y.dtype;
    const auto bytes = static_cast<size_t>(num_rows * columns) * SizeOf(dtype);
    product = Tensor(device.TakeScratch<char>(bytes), dtype, {num_rows, columns});
  }
  if (!device.ok()) return;

  LtProduct call;
  call.a = Tensor(x.data, x.dtype, {num_rows, x.dim(-1)});
  call.a.row_stride = x.row_stride;
  call.b = Tensor(const_cast<void*>(weight.data()), weight.dtype(), {columns, call.a.dim(-1)});
  call.b.row_stride = weight.row_stride();
  call.transpose_b = true;
  call.d = Tensor(product.data, product.dtype, {num_rows, columns});
  call.d.row_stride = product.row_stride;
  if (fused.bias) call.bias = Tensor(params.bias.data, params.bias.dtype, {columns});
  call.epilogue = EpilogueOf(fused.activation ? params.activation : Activation::kNone, fused.bias);
  if (fused.residual) {
    call.c = Tensor(params.residual.data, params.residual.dtype, {num_rows, columns});
    call.c.row_stride = params.residual.row_stride;
  }
  call.bucket_rows = true;
  call.batch_invariant = device.batch_invariant();
  if (const absl::Status status = lt.Run(call); !status.ok()) device.SetError(status);

  FinishParams rest;
  rest.product = product;
  rest.bias = fused.bias ? Tensor() : params.bias;
  rest.activation = fused.activation ? Activation::kNone : params.activation;
  rest.gated = params.gated;
  rest.residual = fused.residual ? Tensor() : params.residual;
  rest.softcap = params.softcap;
  rest.y = params.y;
  const bool finished = in_place && rest.bias.empty() && rest.activation == Activation::kNone &&
                        rest.residual.empty() && params.softcap == 0.0f;
  if (!finished && device.ok()) Finish(device, rest);
}

// Launches the kernels that compute either operator as a whole. False: the choice is another
// kernel.
template <typename Params>
bool LaunchWhole(Device& device, const Params& params, const CudaWeight& weight,
                 const ProductChoice& choice) {
  switch (choice.kernel) {
    case ProductKernel::kStreamTiles:
      StreamTilesProduct(device, params, weight);
      return true;
    case ProductKernel::kStream:
      StreamProduct(device, params, weight);
      return true;
    case ProductKernel::kRowParts:
      RowPartsProduct(device, params, weight, choice.tiles_per_block);
      return true;
    case ProductKernel::kFloatParts:
      FloatPartsProduct(device, params, weight, choice.units_per_block);
      return true;
    case ProductKernel::kSkinnyTensorCore:
      SkinnyTensorCoreProduct(device, params, weight);
      return true;
    case ProductKernel::kSkinny:
      SkinnyProduct(device, params, weight);
      return true;
    case ProductKernel::kCluster:
      ClusterProduct(device, params, weight, choice.cluster_tiles);
      return true;
    case ProductKernel::kFloatRows:
    case ProductKernel::kWgmma:
    case ProductKernel::kLt:
      break;
  }
  return false;
}

void Launch(Device& device, LtMatMul& lt, const MatMulParams& params, const ProductChoice& choice) {
  const auto& weight = static_cast<const CudaWeight&>(*params.weight);
  if (LaunchWhole(device, params, weight, choice)) return;
  switch (choice.kernel) {
    case ProductKernel::kFloatRows:
      return FloatRowsProduct(device, params, weight);
    case ProductKernel::kWgmma:
      return LaunchWgmma(device, params, weight, choice.wgmma_tiles);
    default:
      return LaunchLt(device, lt, params, weight);
  }
}

// Computes the norm if the choice has a separate kernel for it. Returns what is left to compute.
template <typename Params>
Params LaunchNorm(Device& device, const Params& params, const ProductChoice& choice) {
  if (!choice.norm_apart) return params;
  NormBeforeProduct(device, InputNormOf(params));
  return ProductOfNormed(params);
}

template <typename Params>
void CheckOperands(const Params& params) {
  const auto& weight = static_cast<const CudaWeight&>(*params.weight);
  BEAMLINE_CHECK(params.x.dtype == weight.dtype());
  BEAMLINE_CHECK(params.x.dim(-1) == weight.in_features());
}

template <typename Params>
ProductChoice Choose(const Device& device, const Params& params) {
  return PickProduct(
      params, LayoutOf(static_cast<const CudaWeight&>(*params.weight)),
      {.num_multiprocessors = device.num_multiprocessors(),
       .shared_bytes = static_cast<int64_t>(device.properties().sharedMemPerBlockOptin),
       .has_wgmma = device.has_wgmma(),
       .batch_invariant = device.batch_invariant()});
}

}  // namespace

ProductChoice ChooseProduct(const Device& device, const MatMulParams& params) {
  return Choose(device, params);
}
ProductChoice ChooseProduct(const Device& device, const ProjectHeadsParams& params) {
  return Choose(device, params);
}

void Compute(Device& device, LtMatMul& lt, const MatMulParams& params,
             const ProductChoice& choice) {
  if (params.x.num_rows() == 0) return;
  CheckOperands(params);
  Launch(device, lt, LaunchNorm(device, params, choice), choice);
}

void Compute(Device& device, LtMatMul& lt, const ProjectHeadsParams& params,
             const ProductChoice& choice) {
  if (params.x.num_rows() == 0) return;
  CheckOperands(params);
  if (choice.heads == HeadsPass::kInside) {
    const auto& weight = static_cast<const CudaWeight&>(*params.weight);
    BEAMLINE_CHECK(LaunchWhole(device, LaunchNorm(device, params, choice), weight, choice));
    return;
  }
  Launch(device, lt, LaunchNorm(device, ProductOfHeads(params), choice), choice);
  if (device.ok()) MoveHeads(device, NormAllHeads(device, params));
}

}  // namespace beamline::cuda
