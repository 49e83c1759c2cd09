#include "kernels/cuda/products/product_picker.h"

#include "base/math.h"
#include "kernels/input_norm.h"

namespace beamline::cuda {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int64_t kAccessBytes = 16;

// The properties of either operator that the kernels of few rows depend on.
struct Product {
  const WeightLayout& weight;
  const ProductDevice& device;
  const Tensor& x;
  const Tensor& normed;
  const FusedNorm& norm;
  bool is_heads = false;
  bool has_norm = false;
  bool is_logits = false;  // y is float32, and x is not
  bool paired = false;     // an output needs two features: of a gate, or rotated by an angle
  bool has_pairs = true;   // every head divides into such pairs

  int64_t num_rows() const { return x.num_rows(); }
  int64_t num_units() const { return paired ? weight.out_features / 2 : weight.out_features; }
  int64_t weight_bytes() const {
    return weight.out_features * weight.row_stride * static_cast<int64_t>(SizeOf(weight.dtype));
  }
  bool is_16_bit() const { return SizeOf(weight.dtype) == 2; }
  // Tiles of the tensor cores, with 16 output features each.
  int64_t num_tiles() const { return CeilDiv(num_units(), int64_t{paired ? 8 : 16}); }
};

Product ProductOf(const MatMulParams& p, const WeightLayout& weight, const ProductDevice& device) {
  Product product = {weight, device, p.x, p.normed, p.input_norm};
  product.has_norm = HasInputNorm(p);
  product.is_logits = p.y.dtype != p.x.dtype;
  product.paired = p.gated;
  return product;
}
Product ProductOf(const ProjectHeadsParams& p, const WeightLayout& weight,
                  const ProductDevice& device) {
  Product product = {weight, device, p.x, p.normed, p.input_norm};
  product.is_heads = true;
  product.has_norm = HasInputNorm(p);
  product.paired = p.rotary != nullptr;
  product.has_pairs = !product.paired || p.head_dim % 2 == 0;
  return product;
}

// Whether the rows start at multiples of `bytes`. True for an empty tensor.
bool IsAlignedTo(const Tensor& tensor, int64_t bytes) {
  return tensor.empty() ||
         (reinterpret_cast<uintptr_t>(tensor.data) % static_cast<uintptr_t>(bytes) == 0 &&
          tensor.row_stride * static_cast<int64_t>(SizeOf(tensor.dtype)) % bytes == 0);
}

// Whether the rows are also whole numbers of aligned accesses.
bool IsInWholeAccesses(const Tensor& tensor) {
  return tensor.empty() ||
         (IsAlignedTo(tensor, kAccessBytes) &&
          tensor.dim(-1) * static_cast<int64_t>(SizeOf(tensor.dtype)) % kAccessBytes == 0);
}
bool IsNormInWholeAccesses(const Product& p) {
  return IsInWholeAccesses(p.norm.gain) && IsInWholeAccesses(p.norm.bias) &&
         IsInWholeAccesses(p.normed);
}

// Measured on an H200 in bfloat16 with 2 to 8 rows and the weights of Llama 3 8B. cuBLASLt is as
// fast for its LM head and for 9 to 16 rows. Smaller weights were not measured. A norm is always a
// separate kernel, which the first round of copies hides.
bool IsForStreamTiles(const Product& p) {
  constexpr int64_t kLeastBytes = 32 * kMiB, kLeastColumns = 2048;
  const int64_t columns = p.weight.in_features;
  return p.device.has_wgmma && !p.device.batch_invariant && p.is_16_bit() && !p.is_logits &&
         p.has_pairs && p.num_rows() >= kFewestStreamRows && p.num_rows() <= kMostStreamRows &&
         columns >= kLeastColumns && columns % kStreamStepOf16Bits == 0 &&
         PickStreamSplit(columns, StreamSplit::kAsFits).has_value() &&
         IsInWholeAccesses(p.has_norm ? p.normed : p.x) && p.weight_bytes() >= kLeastBytes;
}

// For smaller weights and shorter rows, the kernels of few rows use more blocks and take less time.
bool IsForStream(const Product& p) {
  constexpr int64_t kLeastBytes = 32 * kMiB, kLeastColumns = 2048;
  const int64_t shared_bytes = kStreamRingBytes + kStreamStaticBytes +
                               p.weight.in_features * static_cast<int64_t>(SizeOf(p.weight.dtype));
  return p.device.has_wgmma && p.num_rows() == 1 && p.is_16_bit() && IsInWholeAccesses(p.x) &&
         IsNormInWholeAccesses(p) && p.weight.in_features >= kLeastColumns &&
         p.weight_bytes() >= kLeastBytes && shared_bytes <= p.device.shared_bytes;
}

// Tiles of a block of kRowParts; 0: another kernel computes it. Blocks of one row are small, so
// several run on a multiprocessor at once. Of blocks of several rows one runs there. Such a block
// takes two tiles, which is better than two blocks that both compute the norm.
int RowPartsTiles(const Product& p) {
  constexpr int kMostOneRowBlocks = 4;  // per multiprocessor
  if (!p.has_norm || !p.is_16_bit() || p.is_logits || p.num_rows() > kMostPartsRows ||
      p.weight.in_features > kMostPartsColumns || !IsInWholeAccesses(p.x) ||
      !IsNormInWholeAccesses(p)) {
    return 0;
  }
  const int multiprocessors = p.device.num_multiprocessors;
  if (p.num_rows() == 1) return p.num_tiles() <= kMostOneRowBlocks * multiprocessors ? 1 : 0;
  if (p.num_tiles() <= multiprocessors) return 1;
  return p.num_tiles() <= kMostPartsTiles * multiprocessors ? kMostPartsTiles : 0;
}

// Output features of a block of kFloatParts, if every block gets its own multiprocessor; 0: another
// kernel computes it.
int FloatPartsUnits(const Product& p) {
  const int64_t columns = p.weight.in_features;
  if (p.weight.dtype != DType::kFloat32 || p.paired || p.num_rows() > kMostFloatPartsRows ||
      columns > (p.has_norm ? kShortFloatPartsColumns : kLongFloatPartsColumns) ||
      !IsInWholeAccesses(p.x)) {
    return 0;
  }
  if (p.has_norm && (columns % kFloatPartsNormStep != 0 || !IsNormInWholeAccesses(p))) return 0;
  for (const int units : {4, 12, 16}) {
    if (units > 4 && columns > kShortFloatPartsColumns) break;
    if (p.num_units() <= int64_t{units} * p.device.num_multiprocessors) return units;
  }
  return 0;
}

bool IsForFloatRows(const Product& p) {
  // Other kernels compute weights that give each warp fewer features than this.
  constexpr int64_t kFewestFeatures = 4;
  const int64_t warps =
      int64_t{kFloatRowsWarps} * kFloatRowsBlocksPerSm * p.device.num_multiprocessors;
  return !p.is_heads && p.weight.dtype == DType::kFloat32 && !p.paired && !p.has_norm &&
         p.num_rows() <= kMostFloatRowsRows && p.weight.in_features <= kMostFloatRowsColumns &&
         IsInWholeAccesses(p.x) && p.num_units() >= kFewestFeatures * warps;
}

// Whether every block may normalise the rows while it loads them.
bool FitsNormOnLoad(const Product& p) {
  return !p.is_logits && p.weight.in_features <= kMostNormedColumns &&
         p.num_rows() <= kNormingWarps && IsNormInWholeAccesses(p);
}

bool IsForSkinnyTensorCore(const Product& p) {
  const int64_t multiprocessors = p.device.num_multiprocessors;
  // Also one row of a small weight: it has fewer and larger blocks, which all run at once, so the
  // next product's blocks find room early. Larger weights were not measured.
  const bool small = p.weight.out_features <= 16 * multiprocessors && p.weight.in_features <= 4096;
  const int64_t fewest = p.has_norm || small ? 1 : 2;
  if (!p.is_16_bit() || p.num_rows() < fewest || p.num_rows() > kMostTensorCoreSkinnyRows ||
      !IsInWholeAccesses(p.x)) {
    return false;
  }
  return !p.has_norm ||
         (FitsNormOnLoad(p) && p.num_tiles() <= kMostNormingBlocks * multiprocessors);
}

bool IsForSkinny(const Product& p) {
  if (p.num_rows() > kMostSkinnyRows || !IsInWholeAccesses(p.x)) return false;
  if (!p.has_norm) return true;
  const int64_t most_units =
      int64_t{kMostNormingBlocks} * kNormingWarps * p.device.num_multiprocessors;
  return p.weight.dtype == DType::kFloat32 && FitsNormOnLoad(p) && p.num_units() <= most_units;
}

// Picks one of the kernels that compute the whole operator for a few rows. They sum in another
// order than cuBLASLt does for more rows.
bool PickFewRows(const Product& p, ProductChoice& choice) {
  if (p.device.batch_invariant || !p.has_pairs) return false;
  const auto pick = [&](ProductKernel kernel, ProductReason reason) {
    choice.kernel = kernel;
    choice.reason =
        p.has_norm && kernel != ProductKernel::kStream ? ProductReason::kNormInside : reason;
    return true;
  };
  if (IsForStream(p)) return pick(ProductKernel::kStream, ProductReason::kLargeWeight);
  choice.tiles_per_block = RowPartsTiles(p);
  if (choice.tiles_per_block > 0) {
    return pick(ProductKernel::kRowParts, ProductReason::kNormInside);
  }
  choice.units_per_block = FloatPartsUnits(p);
  if (choice.units_per_block > 0) {
    return pick(ProductKernel::kFloatParts, ProductReason::kSmallWeight);
  }
  if (IsForFloatRows(p)) {
    return pick(ProductKernel::kFloatRows, ProductReason::kManyFeatures);
  }
  if (IsForSkinnyTensorCore(p)) {
    return pick(ProductKernel::kSkinnyTensorCore, ProductReason::kFewRows);
  }
  return IsForSkinny(p) && pick(ProductKernel::kSkinny, ProductReason::kFewRows);
}

bool FitsCluster(const ProjectHeadsParams& p) {
  return p.rotary == nullptr && p.head_dim % 2 == 0 && IsAlignedTo(p.x, kAccessBytes) &&
         IsAlignedTo(p.bias, 4) && IsAlignedTo(p.query, 4) && IsAlignedTo(p.key, 4) &&
         IsAlignedTo(p.value, 4);
}

// For more rows than the kernels of few rows take, and fewer than fill the GPU with cuBLASLt's
// tiles.
bool PickCluster(const Product& p, ProductChoice& choice) {
  if (!p.device.has_wgmma || p.device.batch_invariant || !p.is_16_bit()) return false;
  choice.cluster_tiles = PickClusterTiles(p.num_rows(), p.weight.in_features, p.weight.out_features,
                                          p.device.num_multiprocessors);
  if (choice.cluster_tiles.rows == 0) return false;
  choice.kernel = ProductKernel::kCluster;
  choice.reason = ProductReason::kFewTiles;
  return true;
}

// Whether cuBLASLt reads the weight of a few rows faster than the kernel for them. Measured on an
// H200 in 16 bits with 2 to 16 rows: 31 us against 34 to 37 at 4096 x 14336 (112 MiB), and up to
// twice as slow if the weight is small.
bool IsForLt(const MatMulParams& params, const WeightLayout& weight) {
  constexpr int64_t kLeastBytes = 64 * kMiB;
  const int64_t row_bytes = weight.row_stride * static_cast<int64_t>(SizeOf(weight.dtype));
  return SizeOf(weight.dtype) == 2 && params.x.num_rows() > 1 &&
         weight.padded_rows * row_bytes >= kLeastBytes && !params.gated && !HasInputNorm(params);
}

// For products whose exact GELU cuBLASLt would leave to the finishing pass.
bool PickWgmma(const MatMulParams& params, const Product& p, ProductChoice& choice) {
  if (!p.device.has_wgmma || !p.is_16_bit() || p.is_logits || params.gated ||
      params.activation != Activation::kGelu || !params.residual.empty() || params.softcap > 0.0f ||
      !IsInWholeAccesses(params.y)) {
    return false;
  }
  choice.wgmma_tiles =
      PickWgmmaTiles(p.num_rows(), p.weight.out_features, p.device.num_multiprocessors);
  // The pass after cuBLASLt would round once more.
  if (choice.wgmma_tiles == WgmmaTiles::kNone && p.device.batch_invariant) {
    choice.wgmma_tiles = WgmmaTiles::kNarrow;
  }
  if (choice.wgmma_tiles == WgmmaTiles::kNone) return false;
  choice.kernel = ProductKernel::kWgmma;
  choice.reason = ProductReason::kExactGelu;
  return true;
}

ProductReason ReasonOfLt(const MatMulParams& params, const Product& p) {
  if (params.softcap > 0.0f) return ProductReason::kSoftcap;
  if (p.device.batch_invariant) return ProductReason::kInvariant;
  if (p.num_rows() > (p.is_16_bit() ? kMostTensorCoreSkinnyRows : kMostSkinnyRows)) {
    return ProductReason::kManyRows;
  }
  return IsForLt(params, p.weight) ? ProductReason::kLtReadsFaster : ProductReason::kAlignment;
}

// A choice with the operands that it is made from.
ProductChoice ChoiceOf(const Product& p, HeadsPass heads) {
  ProductChoice choice;
  choice.heads = heads;
  choice.dtype = p.weight.dtype;
  choice.num_rows = p.num_rows();
  choice.in_features = p.weight.in_features;
  choice.out_features = p.weight.out_features;
  choice.weight_bytes = p.weight_bytes();
  return choice;
}

// The kernel that streams the weight, which goes before all others.
bool PickStreamTiles(const Product& p, ProductChoice& choice) {
  if (!IsForStreamTiles(p)) return false;
  choice.kernel = ProductKernel::kStreamTiles;
  choice.reason = ProductReason::kLargeWeight;
  choice.norm_apart = p.has_norm;
  return true;
}

// For a norm that no product takes over: it gets a separate kernel.
template <typename Params>
ProductChoice PickProductOfNormed(const Params& params, const WeightLayout& weight,
                                  const ProductDevice& device) {
  ProductChoice choice = PickProduct(ProductOfNormed(params), weight, device);
  choice.norm_apart = true;
  return choice;
}

}  // namespace

bool FitsStreamTiles(const MatMulParams& params, int64_t in_features, int step_columns,
                     StreamSplit split) {
  const int64_t num_rows = params.x.num_rows();
  const bool logits = params.y.dtype != params.x.dtype;
  return num_rows >= kFewestStreamRows && num_rows <= kMostStreamRows &&
         SizeOf(params.x.dtype) == 2 && !HasInputNorm(params) && !(params.gated && logits) &&
         IsInWholeAccesses(params.x) && in_features % step_columns == 0 &&
         PickStreamSplit(in_features, split).has_value();
}

bool FitsCluster(const MatMulParams& params) {
  return !params.gated && params.y.dtype == params.x.dtype && IsAlignedTo(params.x, kAccessBytes) &&
         IsAlignedTo(params.y, 4) &&
         (params.residual.empty() || params.residual.dtype == params.x.dtype) &&
         IsAlignedTo(params.residual, 4);
}

bool IsLtInPlace(const MatMulParams& params, const WeightLayout& weight) {
  const bool whole =
      weight.out_features * static_cast<int64_t>(SizeOf(params.y.dtype)) % kAccessBytes == 0;
  const bool has_room = params.y_owns_padding && params.y.row_stride >= weight.padded_rows;
  return !params.gated && IsAlignedTo(params.y, kAccessBytes) && (whole || has_room);
}

MatMulParams ProductOfHeads(const ProjectHeadsParams& params) {
  MatMulParams product;
  product.x = params.x;
  product.input_norm = params.input_norm;
  product.normed = params.normed;
  product.weight = params.weight;
  product.bias = params.bias;
  product.y = params.workspace;
  return product;
}

ProductChoice PickProduct(const MatMulParams& params, const WeightLayout& weight,
                          const ProductDevice& device) {
  const Product product = ProductOf(params, weight, device);
  ProductChoice choice = ChoiceOf(product, HeadsPass::kNone);
  const bool capped = params.softcap > 0.0f;  // only the finishing pass caps
  if (!capped) {
    if (PickStreamTiles(product, choice)) return choice;
    if (!IsForLt(params, weight) && PickFewRows(product, choice)) {
      return choice;
    }
  }
  if (product.has_norm) return PickProductOfNormed(params, weight, device);
  if (!capped && FitsCluster(params) && PickCluster(product, choice)) return choice;
  if (PickWgmma(params, product, choice)) return choice;
  choice.reason = ReasonOfLt(params, product);
  return choice;
}

ProductChoice PickProduct(const ProjectHeadsParams& params, const WeightLayout& weight,
                          const ProductDevice& device) {
  // A head's norm needs the whole head. Clipping is rare.
  const bool apart =
      !params.query_norm.gain.empty() || !params.key_norm.gain.empty() || params.clip > 0;
  if (!apart) {
    const Product product = ProductOf(params, weight, device);
    ProductChoice choice = ChoiceOf(product, HeadsPass::kInside);
    if (PickStreamTiles(product, choice)) return choice;
    if (PickFewRows(product, choice)) return choice;
    if (product.has_norm) return PickProductOfNormed(params, weight, device);
    if (FitsCluster(params) && PickCluster(product, choice)) return choice;
  }
  ProductChoice choice = PickProduct(ProductOfHeads(params), weight, device);
  choice.heads = apart ? HeadsPass::kAfterNorms : HeadsPass::kAfter;
  return choice;
}

}  // namespace beamline::cuda
