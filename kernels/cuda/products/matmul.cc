#include "kernels/cuda/products/matmul.h"

#include <type_traits>

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

// They sum in other orders than cuBLASLt does for more rows.
template <typename Params>
bool LaunchSkinny(Device& device, const Params& params, const CudaWeight& weight) {
  if (device.batch_invariant()) return false;
  const int64_t num_rows = params.x.num_rows();
  if (device.has_wgmma() && StreamProduct(device, params, weight)) return true;
  if (RowPartsProduct(device, params, weight)) return true;
  if (FloatPartsProduct(device, params, weight)) return true;
  if constexpr (std::is_same_v<Params, MatMulParams>) {
    if (FloatRowsProduct(device, params, weight)) return true;
  }
  // One row of a small weight too: by fewer and larger blocks, which all run at once, so that the
  // product behind this one finds room before its turn. Larger weights were not measured.
  const bool small =
      weight.out_features() <= 16 * device.num_multiprocessors() && weight.in_features() <= 4096;
  const int64_t fewest = HasInputNorm(params) || small ? 1 : 2;
  if (num_rows >= fewest && num_rows <= kMostTensorCoreSkinnyRows &&
      SkinnyTensorCoreProduct(device, params, weight)) {
    return true;
  }
  return num_rows <= kMostSkinnyRows && SkinnyProduct(device, params, weight);
}

// Whether a kernel of our own streams the weight, in place of all other ways: measured on an H200
// in bfloat16 with 2 to 8 rows and the weights of Llama 3 8B. Its head, and 9 to 16 rows, cuBLASLt
// reads as fast; smaller weights were not measured.
template <typename Params>
bool IsForStreamTiles(const Device& device, const Params& params, const CudaWeight& weight) {
  constexpr int64_t kMostRows = 8, kLeastBytes = int64_t{32} << 20;
  constexpr int64_t kLeastColumns = 2048, kMostColumns = 28672, kColumnsStep = 32;
  bool logits = false;
  if constexpr (std::is_same_v<Params, MatMulParams>) logits = params.y.dtype != params.x.dtype;
  const int64_t num_rows = params.x.num_rows(), columns = weight.in_features();
  const auto element_bytes = static_cast<int64_t>(SizeOf(weight.dtype()));
  return device.has_wgmma() && !device.batch_invariant() && element_bytes == 2 && !logits &&
         num_rows > 1 && num_rows <= kMostRows && columns >= kLeastColumns &&
         columns <= kMostColumns && columns % kColumnsStep == 0 &&
         IsAligned(HasInputNorm(params) ? params.normed : params.x) &&
         weight.out_features() * weight.row_stride() * element_bytes >= kLeastBytes;
}

// Whether cuBLASLt reads the weight of a few rows faster than the kernel for them: measured on an
// H200 in 16 bits with 2 to 16 rows, 31 us against 34 to 37 at 4096 x 14336 (112 MiB), and up to
// twice as slow where the weight is small.
bool IsForLt(const MatMulParams& params, const CudaWeight& weight) {
  constexpr int64_t kLeastBytes = int64_t{64} << 20;
  const int64_t row_bytes = weight.row_stride() * static_cast<int64_t>(SizeOf(weight.dtype()));
  return SizeOf(weight.dtype()) == 2 && params.x.num_rows() > 1 &&
         weight.padded_rows() * row_bytes >= kLeastBytes && !params.gated && !HasInputNorm(params);
}

// For rows that are more than those, and fewer than fill the GPU by cuBLASLt's tiles.
template <typename Params>
bool LaunchCluster(Device& device, const Params& params, const CudaWeight& weight) {
  if (!device.has_wgmma() || device.batch_invariant() || SizeOf(weight.dtype()) != 2) return false;
  return ClusterProduct(device, params, weight,
                        PickClusterTiles(params.x.num_rows(), weight.in_features(),
                                         weight.out_features(), device.num_multiprocessors()));
}

// Computes the input norm by a kernel of its own, where no product takes it over. Returns what is
// left to be computed.
template <typename Params>
Params LaunchNorm(Device& device, const Params& params) {
  NormBeforeProduct(device, InputNormOf(params));
  return ProductOfNormed(params);
}

// A norm that stands before such a product is hidden by the first round of its copies.
template <typename Params>
bool LaunchStreamTiles(Device& device, const Params& params, const CudaWeight& weight) {
  if (!IsForStreamTiles(device, params, weight)) return false;
  return StreamTilesProduct(device, HasInputNorm(params) ? LaunchNorm(device, params) : params,
                            weight);
}

// Norms the heads of `params` together that are so normed, where the product lies. Returns what is
// left to be computed.
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

// What cuBLASLt's epilogue takes over from the finishing pass.
struct Fused {
  bool bias = false;
  bool activation = false;
  bool residual = false;
};

// For a product whose d, of `columns` columns, lies in y; `whole`: y itself has as many columns.
Fused ChooseFused(const MatMulParams& params, int64_t columns, bool whole) {
  Fused fused;
  const bool none = params.activation == Activation::kNone;
  // cuBLASLt reads a bias of y's type only, and its GELU is the tanh form.
  fused.bias = !params.bias.empty() && params.bias.dtype == params.y.dtype &&
               (whole || params.bias.row_stride >= columns) &&
               reinterpret_cast<uintptr_t>(params.bias.data) % kAccessBytes == 0;
  const bool bias_done = fused.bias || params.bias.empty();
  // cuBLASLt's tanh is too coarse for float32 (docs/results/notes-cuda.md).
  const bool fused_gelu =
      params.activation == Activation::kGeluTanh && params.y.dtype != DType::kFloat32;
  fused.activation = bias_done && (none || params.activation == Activation::kRelu || fused_gelu);
  // cuBLASLt adds the residual before the activation, MatMul after it and the cap.
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

// Whether a kernel of Hopper's computes the product with its activation, where cuBLASLt would leave
// that to the finishing pass; x as the product reads it. Does so.
bool LaunchWgmma(Device& device, const MatMulParams& params, const Tensor& x,
                 const CudaWeight& weight) {
  const DType dtype = params.y.dtype;
  if (!device.has_wgmma() || SizeOf(dtype) != 2 || weight.dtype() != dtype ||
      params.activation != Activation::kGelu || params.gated || !params.residual.empty() ||
      params.softcap > 0.0f) {
    return false;
  }
  WgmmaTiles tiles =
      PickWgmmaTiles(params.y.num_rows(), weight.out_features(), device.num_multiprocessors());
  // The pass behind cuBLASLt would round once more.
  if (tiles == WgmmaTiles::kNone && device.batch_invariant()) tiles = WgmmaTiles::kNarrow;
  if (tiles == WgmmaTiles::kNone) return false;
  Tensor rows(const_cast<void*>(weight.data()), dtype, {weight.out_features(), x.dim(-1)});
  rows.row_stride = weight.row_stride();
  WgmmaGeluProduct(device, {.x = x, .weight = rows, .bias = params.bias, .y = params.y}, tiles);
  return true;
}

}  // namespace

void Compute(Device& device, LtMatMul& lt, const MatMulParams& params) {
  const auto& weight = static_cast<const CudaWeight&>(*params.weight);
  const int64_t num_rows = params.x.num_rows();
  if (num_rows == 0) return;
  BEAMLINE_CHECK(params.x.dtype == weight.dtype());
  BEAMLINE_CHECK(params.x.dim(-1) == weight.in_features());
  const bool capped = params.softcap > 0.0f;  // by the finishing pass alone
  if (!capped && LaunchStreamTiles(device, params, weight)) return;
  if (!capped && !IsForLt(params, weight) && LaunchSkinny(device, params, weight)) return;
  if (HasInputNorm(params)) return Compute(device, lt, LaunchNorm(device, params));
  if (!capped && LaunchCluster(device, params, weight)) return;

  Tensor x = params.x;
  const bool padded = weight.row_stride() != weight.in_features();
  if (padded || !IsAligned(x)) x = PadColumns(device, x, weight.row_stride());
  // Odd output features are many times slower in cuBLASLt (see CudaWeight): such a product runs on
  // the weight's padding too. Where y has no room for that, and for a gate, it goes to scratch
  // memory and the finishing pass brings it to y.
  const bool whole =
      weight.out_features() * static_cast<int64_t>(SizeOf(params.y.dtype)) % kAccessBytes == 0;
  const bool has_room = params.y_owns_padding && params.y.row_stride >= weight.padded_rows();
  bool in_place = !params.gated && IsAligned(params.y) && (whole || has_room);
  if (whole && in_place && device.ok() && LaunchWgmma(device, params, x, weight)) return;
  const int64_t padded_columns = whole ? weight.out_features() : weight.padded_rows();
  Fused fused = in_place ? ChooseFused(params, padded_columns, whole) : Fused();
  // A residual that lies in y must be there until it is added.
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
  call.a = Tensor(x.data, x.dtype, {num_rows, padded ? weight.row_stride() : weight.in_features()});
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
                        rest.residual.empty() && !capped;
  if (!finished && device.ok()) Finish(device, rest);
}

void Compute(Device& device, LtMatMul& lt, const ProjectHeadsParams& params) {
  const auto& weight = static_cast<const CudaWeight&>(*params.weight);
  if (params.x.num_rows() == 0) return;
  BEAMLINE_CHECK(params.x.dtype == weight.dtype());
  BEAMLINE_CHECK(params.x.dim(-1) == weight.in_features());
  // A head's norm needs all of the head; clipping is rare.
  const bool apart =
      !params.query_norm.gain.empty() || !params.key_norm.gain.empty() || params.clip > 0;
  if (!apart && LaunchStreamTiles(device, params, weight)) return;
  if (!apart && LaunchSkinny(device, params, weight)) return;
  if (HasInputNorm(params) && !apart) {
    return Compute(device, lt, LaunchNorm(device, params));
  }
  if (!apart && LaunchCluster(device, params, weight)) return;
  MatMulParams product;
  product.x = params.x;
  product.input_norm = params.input_norm;
  product.normed = params.normed;
  product.weight = params.weight;
  product.bias = params.bias;
  product.y = params.workspace;
  Compute(device, lt, product);
  if (device.ok()) MoveHeads(device, NormAllHeads(device, params));
}

}  // namespace beamline::cuda
