// Long because every kernel has limits of its own, and each side of a limit is a case.
#include "kernels/cuda/products/product_picker.h"

#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/math.h"
#include "gtest/gtest.h"
#include "kernels/input_norm.h"

namespace beamline::cuda::product_picker_test {
namespace {

constexpr DType kHalf = DType::kBFloat16;
constexpr DType kFloat = DType::kFloat32;
constexpr ProductDevice kHopper = {
    .num_multiprocessors = 132, .shared_bytes = 232448, .has_wgmma = true};
// sm_80, and GPUs of 10.0 and 12.0: no kernel of sm_90a runs there.
constexpr ProductDevice kAmpere = {.num_multiprocessors = 108, .shared_bytes = 166912};
constexpr ProductDevice kBlackwell = {.num_multiprocessors = 188, .shared_bytes = 101376};
constexpr ProductDevice kInvariant = {
    .num_multiprocessors = 132, .shared_bytes = 232448, .has_wgmma = true, .batch_invariant = true};

alignas(256) char memory[4096];  // never read: the picker looks at addresses alone

// As CudaWeight lays it out.
WeightLayout Weight(DType dtype, int64_t in_features, int64_t out_features) {
  WeightLayout weight = {dtype, in_features, out_features, in_features, RoundUp(out_features, 64)};
  if (in_features * static_cast<int64_t>(SizeOf(dtype)) % 16 != 0) {
    weight.row_stride = RoundUp(in_features, 64);
  }
  return weight;
}

// Operands of a MatMul, and the weight.
struct MatMulCase {
  WeightLayout weight;
  MatMulParams params;

  MatMulCase(DType dtype, int64_t rows, int64_t in_features, int64_t out_features)
      : weight(Weight(dtype, in_features, out_features)) {
    params.x = Tensor(memory, dtype, {rows, in_features});
    params.y = Tensor(memory, dtype, {rows, out_features});
  }
  MatMulCase& Normed() {
    params.input_norm.gain = Tensor(memory, weight.dtype, {weight.in_features});
    params.normed = params.x;
    return *this;
  }
  MatMulCase& Gated() {
    params.gated = true;
    params.y = Tensor(memory, weight.dtype, {params.x.num_rows(), weight.out_features / 2});
    return *this;
  }
  MatMulCase& IntoFloats() {
    params.y.dtype = DType::kFloat32;
    return *this;
  }
  MatMulCase& With(Activation activation) {
    params.activation = activation;
    return *this;
  }
  MatMulCase& Capped() {
    params.softcap = 30.0f;
    return *this;
  }
  ProductChoice Pick(const ProductDevice& device = kHopper) const {
    return PickProduct(params, weight, device);
  }
  ProductKernel Kernel(const ProductDevice& device = kHopper) const { return Pick(device).kernel; }
};

MatMulCase Half(int64_t rows, int64_t in_features, int64_t out_features) {
  return {kHalf, rows, in_features, out_features};
}
MatMulCase Floats(int64_t rows, int64_t in_features, int64_t out_features) {
  return {kFloat, rows, in_features, out_features};
}

// Operands of a ProjectHeads: packed, and rotated if `rotary` is given.
struct HeadsCase {
  WeightLayout weight;
  ProjectHeadsParams params;
  Rotary rotary;

  HeadsCase(DType dtype, int64_t rows, int64_t in_features, int num_heads, int head_dim)
      : weight(Weight(dtype, in_features, int64_t{3} * num_heads * head_dim)) {
    params.num_heads = params.num_kv_heads = num_heads;
    params.head_dim = head_dim;
    params.x = Tensor(memory, dtype, {rows, in_features});
    params.query = Tensor(memory, dtype, {rows, int64_t{num_heads} * head_dim});
    params.key = params.value = params.query;
    params.workspace = Tensor(memory, dtype, {rows, weight.out_features});
    rotary.cos_sin = Tensor(memory, DType::kFloat32, {16, head_dim / 2 * 2});
  }
  HeadsCase(const HeadsCase&) = delete;
  HeadsCase& Rotated() {
    params.rotary = &rotary;
    return *this;
  }
  HeadsCase& Normed() {
    params.input_norm.gain = Tensor(memory, weight.dtype, {weight.in_features});
    params.normed = params.x;
    return *this;
  }
  ProductChoice Pick(const ProductDevice& device = kHopper) const {
    return PickProduct(params, weight, device);
  }
};

TEST(ProductPickerTest, ALargeWeightOfFewRowsStreams) {
  using enum ProductKernel;
  EXPECT_EQ(Half(1, 4096, 4096).Kernel(), kStream);
  for (const int rows : {2, 8}) EXPECT_EQ(Half(rows, 4096, 4096).Kernel(), kStreamTiles);
  for (const int rows : {9, 16}) EXPECT_EQ(Half(rows, 4096, 4096).Kernel(), kSkinnyTensorCore);
  for (const int rows : {17, 4096}) EXPECT_EQ(Half(rows, 4096, 4096).Kernel(), kLt);
  // 32 MiB, and one row less.
  EXPECT_EQ(Half(1, 4096, 4095).Kernel(), kSkinny);
  EXPECT_EQ(Half(2, 4096, 4095).Kernel(), kSkinnyTensorCore);
  // The least and the most columns, and steps of them.
  EXPECT_EQ(Half(1, 2048, 8192).Kernel(), kStream);
  EXPECT_EQ(Half(1, 2040, 8300).Kernel(), kSkinny);
  EXPECT_EQ(Half(2, 2048, 8192).Kernel(), kStreamTiles);
  EXPECT_EQ(Half(2, 2016, 8400).Kernel(), kSkinnyTensorCore);
  EXPECT_EQ(Half(2, 28672, 864).Kernel(), kStreamTiles);
  EXPECT_EQ(Half(2, 28704, 864).Kernel(), kSkinnyTensorCore);
  EXPECT_EQ(Half(2, 4104, 4096).Kernel(), kSkinnyTensorCore);
  // A row that shared memory has no room for beside the ring.
  EXPECT_EQ(Half(1, 33280, 864).Kernel(), kStream);
  EXPECT_EQ(Half(1, 33288, 864).Kernel(), kSkinny);
  // Heads of logits, a gate and float32.
  EXPECT_EQ(Half(1, 4096, 128256).IntoFloats().Kernel(), kStream);
  EXPECT_EQ(Half(2, 4096, 128256).IntoFloats().Kernel(), kLt);
  EXPECT_EQ(Half(2, 4096, 128256).IntoFloats().Pick().reason, ProductReason::kLtReadsFaster);
  EXPECT_EQ(Half(8, 4096, 28672).Gated().Kernel(), kStreamTiles);
  EXPECT_EQ(Floats(1, 4096, 4096).Kernel(), kSkinny);
  for (const ProductDevice& device : {kAmpere, kBlackwell}) {
    EXPECT_EQ(Half(1, 4096, 4096).Kernel(device), kSkinny);
    EXPECT_EQ(Half(2, 4096, 4096).Kernel(device), kSkinnyTensorCore);
  }
}

TEST(ProductPickerTest, ANormOfAStreamedWeight) {
  const ProductChoice one = Half(1, 4096, 6144).Normed().Pick();
  EXPECT_EQ(one.kernel, ProductKernel::kStream);
  EXPECT_FALSE(one.norm_apart);
  EXPECT_EQ(one.Describe(),
            "product in bfloat16 of 4096 x 6144: the stream kernel: 1 rows and a weight of 48 MiB: "
            "reading it takes the time");
  const ProductChoice eight = Half(8, 4096, 6144).Normed().Pick();
  EXPECT_EQ(eight.kernel, ProductKernel::kStreamTiles);
  EXPECT_TRUE(eight.norm_apart);
  EXPECT_EQ(
      eight.Describe(),
      "product in bfloat16 of 4096 x 6144: the stream tiles kernel: 8 rows and a weight of 48 "
      "MiB: reading it takes the time; the norm is a kernel before it");
}

TEST(ProductPickerTest, FewRowsOfASmallWeight) {
  using enum ProductKernel;
  for (const int rows : {1, 2, 8, 9, 16}) {
    EXPECT_EQ(Half(rows, 768, 768).Kernel(), kSkinnyTensorCore) << rows;
  }
  EXPECT_EQ(Half(17, 768, 768).Kernel(), kCluster);
  EXPECT_EQ(Half(17, 768, 768).Kernel(kAmpere), kLt);
  EXPECT_EQ(Half(17, 768, 768).Pick(kAmpere).reason, ProductReason::kManyRows);
  // One row of a weight whose blocks of 16 features do not all run at once, or of long rows.
  EXPECT_EQ(Half(1, 768, 16 * 132).Kernel(), kSkinnyTensorCore);
  EXPECT_EQ(Half(1, 768, 16 * 132 + 1).Kernel(), kSkinny);
  EXPECT_EQ(Half(1, 4096, 768).Kernel(), kSkinnyTensorCore);
  EXPECT_EQ(Half(1, 4104, 768).Kernel(), kSkinny);
  for (const int rows : {1, 8}) EXPECT_EQ(Floats(rows, 3072, 3072).Kernel(), kSkinny);
  EXPECT_EQ(Floats(9, 3072, 3072).Kernel(), kLt);
  EXPECT_EQ(Floats(9, 3072, 3072).Pick().reason, ProductReason::kManyRows);
  EXPECT_EQ(Half(4, 768, 768).Pick().Describe(),
            "product in bfloat16 of 768 x 768: the skinny tensor core kernel: 4 rows: it reads the "
            "weight once, and computes all that follows");
}

// From 64 MiB on, of other shapes than those that stream.
TEST(ProductPickerTest, CublasReadsLargeWeightsOfFewRows) {
  using enum ProductKernel;
  EXPECT_EQ(Half(2, 768, 43712).Kernel(), kLt);
  EXPECT_EQ(Half(2, 768, 43712).Pick().Describe(),
            "product in bfloat16 of 768 x 43712: the cuBLASLt kernel: 2 rows and a weight of 64 "
            "MiB, which it reads faster than the kernels of few rows");
  EXPECT_EQ(Half(2, 768, 43584).Kernel(), kSkinnyTensorCore);
  EXPECT_EQ(Half(1, 768, 50257).Kernel(), kSkinny);
  EXPECT_EQ(Half(2, 768, 50304).Gated().Kernel(), kSkinnyTensorCore);
}

TEST(ProductPickerTest, RowPartsNormTheirRows) {
  using enum ProductKernel;
  const auto choice = [](int64_t rows, int64_t in_features, int64_t out_features,
                         const ProductDevice& device = kHopper) {
    return Half(rows, in_features, out_features).Normed().Pick(device);
  };
  for (const ProductDevice& device : {kHopper, kAmpere, kBlackwell}) {
    EXPECT_EQ(choice(1, 768, 2304, device).kernel, kRowParts);
    EXPECT_FALSE(choice(1, 768, 2304, device).norm_apart);
  }
  // Blocks of one row, four a multiprocessor.
  EXPECT_EQ(choice(1, 768, 16 * 4 * 132).kernel, kRowParts);
  EXPECT_EQ(choice(1, 768, 16 * 4 * 132 + 1).kernel, kSkinny);
  EXPECT_TRUE(choice(1, 768, 16 * 4 * 132 + 1).norm_apart);
  // Of several rows one, of one tile or two.
  EXPECT_EQ(choice(4, 768, 16 * 132).tiles_per_block, 1);
  EXPECT_EQ(choice(2, 768, 16 * 132 + 1).tiles_per_block, 2);
  EXPECT_EQ(choice(4, 768, 16 * 264).kernel, kRowParts);
  EXPECT_EQ(choice(4, 768, 16 * 264 + 1).kernel, kSkinnyTensorCore);
  EXPECT_TRUE(choice(4, 768, 16 * 264 + 1).norm_apart);
  EXPECT_EQ(choice(1, 1024, 768).kernel, kRowParts);
  EXPECT_EQ(choice(1, 1032, 768).kernel, kSkinnyTensorCore);
  // More rows norm in the tensor cores' kernel, of short rows and few features.
  EXPECT_EQ(choice(5, 512, 16 * 132).kernel, kSkinnyTensorCore);
  EXPECT_FALSE(choice(5, 512, 16 * 132).norm_apart);
  EXPECT_FALSE(choice(16, 512, 16 * 132).norm_apart);
  EXPECT_TRUE(choice(5, 512, 16 * 132 + 1).norm_apart);
  EXPECT_TRUE(choice(5, 520, 768).norm_apart);
  EXPECT_EQ(choice(17, 512, 768).kernel, kCluster);
  EXPECT_TRUE(choice(17, 512, 768).norm_apart);
  // A gate's tile has eight pairs.
  EXPECT_EQ(Half(4, 768, 2 * 16 * 132).Normed().Gated().Pick().tiles_per_block, 2);
  EXPECT_EQ(Half(4, 768, 2 * 16 * 132 + 2).Normed().Gated().Pick().norm_apart, true);
  // Logits have too many blocks to norm in each.
  EXPECT_TRUE(Half(1, 768, 768).Normed().IntoFloats().Pick().norm_apart);
  EXPECT_EQ(choice(1, 768, 2304).Describe(),
            "product in bfloat16 of 768 x 2304: the row parts kernel: 1 rows, of which every block "
            "computes the norm");
}

TEST(ProductPickerTest, FloatsOfFewRows) {
  using enum ProductKernel;
  for (const auto& [features, units] : {std::pair<int64_t, int>(4 * 132, 4),
                                        {4 * 132 + 1, 12},
                                        {12 * 132, 12},
                                        {12 * 132 + 1, 16},
                                        {16 * 132, 16}}) {
    for (const int rows : {1, 4}) {
      const ProductChoice choice = Floats(rows, 512, features).Pick();
      EXPECT_EQ(choice.kernel, kFloatParts);
      EXPECT_EQ(choice.units_per_block, units);
      EXPECT_EQ(choice.reason, ProductReason::kSmallWeight);
      const ProductChoice normed = Floats(rows, 512, features).Normed().Pick();
      EXPECT_EQ(normed.units_per_block, units);
      EXPECT_EQ(normed.reason, ProductReason::kNormInside);
    }
  }
  EXPECT_EQ(Floats(1, 512, 16 * 132 + 1).Kernel(), kSkinny);
  EXPECT_EQ(Floats(5, 512, 512).Kernel(), kSkinny);
  // Long rows, whose norm no block computes.
  EXPECT_EQ(Floats(1, 2048, 4 * 132).Pick().units_per_block, 4);
  EXPECT_EQ(Floats(1, 2048, 4 * 132 + 1).Kernel(), kSkinny);
  EXPECT_EQ(Floats(1, 2052, 512).Kernel(), kSkinny);
  EXPECT_TRUE(Floats(1, 516, 512).Normed().Pick().norm_apart);
  // Columns that are no whole warps'.
  EXPECT_EQ(Floats(1, 388, 512).Kernel(), kFloatParts);
  EXPECT_EQ(Floats(1, 388, 512).Normed().Kernel(), kSkinny);
  EXPECT_FALSE(Floats(1, 388, 512).Normed().Pick().norm_apart);
  EXPECT_FALSE(Floats(8, 512, 16 * 132).Normed().Pick().norm_apart);
  EXPECT_TRUE(Floats(8, 512, 16 * 132 + 1).Normed().Pick().norm_apart);
  EXPECT_EQ(Floats(1, 512, 512).Gated().Kernel(), kSkinny);
  // Four features for each of eight warps of two blocks of a multiprocessor.
  EXPECT_EQ(Floats(4, 512, 4 * 16 * 132).Kernel(), kFloatRows);
  EXPECT_EQ(Floats(4, 512, 4 * 16 * 132 - 1).Kernel(), kSkinny);
  EXPECT_EQ(Floats(5, 512, 30522).Kernel(), kSkinny);
  EXPECT_EQ(Floats(1, 516, 30522).Kernel(), kSkinny);
  EXPECT_EQ(Floats(1, 512, 30522).Pick().reason, ProductReason::kManyFeatures);
}

// The rows begin where 16 bytes are read at a time, and are whole numbers of these.
TEST(ProductPickerTest, OperandsThatAreNotAligned) {
  using enum ProductKernel;
  for (const int rows : {1, 4, 16}) {
    MatMulCase moved = Half(rows, 768, 768);
    moved.params.x.data = memory + 8;
    EXPECT_EQ(moved.Kernel(), kLt);
    EXPECT_EQ(moved.Pick().reason, ProductReason::kAlignment);
    MatMulCase apart = Half(rows, 768, 768);
    apart.params.x.row_stride = 772;
    EXPECT_EQ(apart.Pick().reason, ProductReason::kAlignment);
    EXPECT_EQ(Half(rows, 765, 768).Pick().reason, ProductReason::kAlignment);
  }
  EXPECT_EQ(Half(1, 765, 768).Pick().Describe(),
            "product in bfloat16 of 765 x 768: the cuBLASLt kernel: the rows cannot be read by "
            "aligned accesses of 16 bytes");
  for (Tensor FusedNorm::*part : {&FusedNorm::gain, &FusedNorm::bias}) {
    MatMulCase gain = Half(1, 768, 768).Normed();
    gain.params.input_norm.*part = Tensor(memory + 2, kHalf, {768});
    EXPECT_TRUE(gain.Pick().norm_apart);
  }
  MatMulCase normed = Half(2, 4096, 4096).Normed();
  normed.params.normed.data = memory + 8;
  EXPECT_EQ(normed.Pick().reason, ProductReason::kAlignment);
  EXPECT_TRUE(normed.Pick().norm_apart);
  // What is written, and added, by pairs.
  MatMulCase y = Half(64, 768, 768);
  y.params.y.data = memory + 2;
  EXPECT_EQ(y.Kernel(), kLt);
  MatMulCase residual = Half(64, 768, 768);
  residual.params.residual = Tensor(memory, kHalf, {64, 768});
  EXPECT_EQ(residual.Kernel(), kCluster);
  residual.params.residual.row_stride = 769;
  EXPECT_EQ(residual.Kernel(), kLt);
}

TEST(ProductPickerTest, RowsThatDoNotFillTheGpu) {
  using enum ProductKernel;
  const ProductChoice choice = Half(32, 768, 768).Pick();
  EXPECT_EQ(choice.kernel, kCluster);
  EXPECT_EQ(choice.cluster_tiles.rows, 32);
  EXPECT_EQ(Half(33, 768, 768).Pick().cluster_tiles.rows, 64);
  EXPECT_EQ(choice.Describe(),
            "product in bfloat16 of 768 x 768: the cluster kernel: 32 rows make too few tiles of "
            "cuBLASLt's for the GPU");
  EXPECT_EQ(Half(32, 768, 768).IntoFloats().Kernel(), kLt);
  EXPECT_EQ(Half(32, 768, 768).Gated().Kernel(), kLt);
  EXPECT_EQ(Half(1024, 768, 768).Kernel(), kLt);
  EXPECT_EQ(Floats(32, 768, 768).Kernel(), kLt);
  for (const ProductDevice& device : {kAmpere, kBlackwell, kInvariant}) {
    EXPECT_EQ(Half(32, 768, 768).Kernel(device), kLt);
  }
}

TEST(ProductPickerTest, TheExactGeluOfManyRows) {
  using enum ProductKernel;
  const auto with = [](Activation activation) { return Half(4096, 768, 3072).With(activation); };
  EXPECT_EQ(with(Activation::kGelu).Kernel(), kWgmma);
  EXPECT_EQ(with(Activation::kGelu).Pick().wgmma_tiles, WgmmaTiles::kNarrow);
  EXPECT_EQ(with(Activation::kGelu).Pick().Describe(),
            "product in bfloat16 of 768 x 3072: the wgmma kernel: it has the exact GELU, which "
            "cuBLASLt leaves to a kernel of its own");
  EXPECT_EQ(Half(16384, 768, 3072).With(Activation::kGelu).Pick().wgmma_tiles, WgmmaTiles::kWide);
  EXPECT_EQ(with(Activation::kGeluTanh).Kernel(), kLt);
  EXPECT_EQ(with(Activation::kGelu).IntoFloats().Kernel(), kLt);
  EXPECT_EQ(with(Activation::kGelu).Gated().Kernel(), kLt);
  EXPECT_EQ(with(Activation::kGelu).Capped().Kernel(), kLt);
  EXPECT_EQ(Half(4096, 768, 3076).With(Activation::kGelu).Kernel(), kLt);
  EXPECT_EQ(Floats(4096, 768, 3072).With(Activation::kGelu).Kernel(), kLt);
  EXPECT_EQ(Half(4096, 765, 3072).With(Activation::kGelu).Kernel(), kWgmma);  // x is padded
  MatMulCase adds = with(Activation::kGelu);
  adds.params.residual = adds.params.y;
  EXPECT_EQ(adds.Kernel(), kLt);
  for (const ProductDevice& device : {kAmpere, kBlackwell}) {
    EXPECT_EQ(with(Activation::kGelu).Kernel(device), kLt);
  }
  // Of few rows too where every row must be computed alike.
  EXPECT_EQ(Half(1, 768, 3072).With(Activation::kGelu).Kernel(kInvariant), kWgmma);
}

TEST(ProductPickerTest, OnlyTheFinishingPassCaps) {
  for (const int rows : {1, 2, 8, 32, 4096}) {
    const ProductChoice choice = Half(rows, 2304, 256000).IntoFloats().Capped().Pick();
    EXPECT_EQ(choice.kernel, ProductKernel::kLt);
    EXPECT_EQ(choice.reason, ProductReason::kSoftcap);
  }
  EXPECT_TRUE(Half(1, 768, 768).Normed().Capped().Pick().norm_apart);
}

TEST(ProductPickerTest, HeadsAreMovedByTheProductOrAfterIt) {
  using enum ProductKernel;
  HeadsCase plain(kHalf, 1, 768, 12, 64);
  EXPECT_EQ(plain.Pick().kernel, kSkinny);  // 2,304 features
  EXPECT_EQ(plain.Pick().heads, HeadsPass::kInside);
  EXPECT_EQ(plain.Normed().Pick().kernel, kRowParts);
  EXPECT_EQ(plain.Pick().Describe(),
            "product of heads in bfloat16 of 768 x 2304: the row parts kernel: 1 rows, of which "
            "every block computes the norm");
  HeadsCase rotated(kHalf, 8, 4096, 16, 128);
  EXPECT_EQ(rotated.Rotated().Normed().Pick().kernel, kStreamTiles);
  EXPECT_TRUE(rotated.Pick().norm_apart);
  EXPECT_EQ(rotated.Pick().heads, HeadsPass::kInside);
  // Some rows: a cluster moves heads, and turns none.
  HeadsCase some(kHalf, 32, 768, 4, 64);
  EXPECT_EQ(some.Pick().kernel, kCluster);
  EXPECT_EQ(some.Pick().heads, HeadsPass::kInside);
  EXPECT_EQ(some.Rotated().Pick().kernel, kCluster);  // of the product alone
  EXPECT_EQ(some.Pick().heads, HeadsPass::kAfter);
  HeadsCase many(kFloat, 9, 768, 12, 64);
  EXPECT_EQ(many.Pick().Describe(),
            "product of heads in float32 of 768 x 2304: the cuBLASLt kernel: 9 rows are more than "
            "the kernels of few rows take; a kernel after it moves the heads");
  // An odd head has an element without a partner.
  HeadsCase odd(kHalf, 4, 64, 4, 7);
  EXPECT_EQ(odd.Pick().heads, HeadsPass::kInside);
  EXPECT_EQ(odd.Rotated().Pick().heads, HeadsPass::kAfter);
  EXPECT_EQ(odd.Pick().kernel, kSkinnyTensorCore);
  // Norms need all of a head, and clips are rare.
  HeadsCase normed(kHalf, 1, 768, 4, 64);
  normed.params.query_norm.gain = Tensor(memory, kHalf, {64});
  EXPECT_EQ(normed.Normed().Pick().heads, HeadsPass::kAfterNorms);
  EXPECT_EQ(normed.Pick().kernel, kRowParts);
  EXPECT_EQ(normed.Pick().Describe(),
            "product of heads in bfloat16 of 768 x 768: the row parts kernel: 1 rows, of which "
            "every block computes the norm; kernels after it norm or clip and move the heads");
  HeadsCase clipped(kHalf, 1, 768, 4, 64);
  clipped.params.clip = 8.0f;
  EXPECT_EQ(clipped.Pick().heads, HeadsPass::kAfterNorms);
  // No kernel of many features moves heads.
  HeadsCase features(kFloat, 1, 512, 64, 64);
  EXPECT_EQ(features.Pick().kernel, kSkinny);
}

TEST(ProductPickerTest, KindsDifferByShapeAndNotByRows) {
  EXPECT_EQ(Half(2, 4096, 4096).Pick().kind(), Half(8, 4096, 4096).Pick().kind());
  EXPECT_NE(Half(2, 4096, 4096).Pick().kind(), Half(2, 4096, 4128).Pick().kind());
  EXPECT_NE(Half(1, 4096, 4096).Pick().kind(), Half(2, 4096, 4096).Pick().kind());
}

TEST(ProductPickerTest, StreamTilesRefuseWhatTheyCannotRead) {
  const auto fits = [](const MatMulCase& of, int step = kStreamStepOf16Bits,
                       StreamSplit split = StreamSplit::kAsFits) {
    return FitsStreamTiles(of.params, of.weight.in_features, step, split);
  };
  EXPECT_TRUE(fits(Half(2, 64, 64)));
  EXPECT_TRUE(fits(Half(8, 64, 64)));
  EXPECT_FALSE(fits(Half(1, 64, 64)));
  EXPECT_FALSE(fits(Half(9, 64, 64)));
  EXPECT_FALSE(fits(Half(4, 72, 64)));
  EXPECT_FALSE(fits(Floats(4, 64, 64)));
  EXPECT_FALSE(fits(Half(4, 64, 64).Normed()));
  EXPECT_TRUE(fits(Half(4, 64, 64).IntoFloats()));
  EXPECT_FALSE(fits(Half(4, 64, 64).Gated().IntoFloats()));
  MatMulCase moved = Half(4, 64, 64);
  moved.params.x.data = memory + 2;
  EXPECT_FALSE(fits(moved));
  EXPECT_TRUE(fits(Half(4, 64, 64), kStreamStepOfE4m3));
  EXPECT_FALSE(fits(Half(4, 64, 64), kStreamStepOfInt4));
  EXPECT_FALSE(fits(Half(4, 7200, 64), kStreamStepOf16Bits, StreamSplit::kOne));
  EXPECT_TRUE(fits(Half(4, 7200, 64), kStreamStepOf16Bits, StreamSplit::kTwo));
}

TEST(ProductPickerTest, AsFewBlocksDivideColumnsAsHaveRoom) {
  const auto split = [](int64_t columns) {
    return PickStreamSplit(columns, StreamSplit::kAsFits).value_or(0);
  };
  EXPECT_EQ(split(7168), 1);
  EXPECT_EQ(split(7200), 2);
  EXPECT_EQ(split(14336), 2);
  EXPECT_EQ(split(14368), 4);
  EXPECT_EQ(split(28672), 4);
  EXPECT_EQ(split(28704), 0);
  EXPECT_FALSE(PickStreamSplit(512, StreamSplit::kTwo).has_value());  // the second has none
  EXPECT_EQ(PickStreamSplit(544, StreamSplit::kTwo), 2);
}

// What must hold of every choice, whatever the shape is.
class ProductSweepTest : public testing::Test {
 protected:
  static bool IsOfHopper(ProductKernel kernel) {
    return kernel == ProductKernel::kStream || kernel == ProductKernel::kStreamTiles ||
           kernel == ProductKernel::kCluster || kernel == ProductKernel::kWgmma;
  }
  // The most rows of a kernel of few.
  static int64_t MostRows(ProductKernel kernel) {
    switch (kernel) {
      case ProductKernel::kStream:
        return 1;
      case ProductKernel::kRowParts:
      case ProductKernel::kFloatParts:
      case ProductKernel::kFloatRows:
        return 4;
      case ProductKernel::kStreamTiles:
      case ProductKernel::kSkinny:
        return 8;
      case ProductKernel::kSkinnyTensorCore:
        return 16;
      default:
        return int64_t{1} << 40;
    }
  }
  void Check(const MatMulCase& of, const ProductDevice& device) {
    const ProductChoice choice = of.Pick(device);
    kernels_.insert(choice.kernel);
    reasons_.insert(choice.reason);
    const bool norms = HasInputNorm(of.params);
    SCOPED_TRACE(choice.Describe());
    EXPECT_TRUE(device.has_wgmma || !IsOfHopper(choice.kernel));
    EXPECT_LE(of.params.x.num_rows(), MostRows(choice.kernel));
    EXPECT_TRUE(norms || !choice.norm_apart);
    EXPECT_TRUE(norms || choice.reason != ProductReason::kNormInside);
    EXPECT_TRUE(!norms || choice.norm_apart || MostRows(choice.kernel) <= 16);
    const MatMulParams params = choice.norm_apart ? ProductOfNormed(of.params) : of.params;
    if (choice.kernel == ProductKernel::kStreamTiles) {
      EXPECT_TRUE(FitsStreamTiles(params, of.weight.in_features, kStreamStepOf16Bits,
                                  StreamSplit::kAsFits));
    }
    if (choice.kernel == ProductKernel::kCluster) {
      EXPECT_TRUE(FitsCluster(params));
      const int64_t steps = CeilDiv(CeilDiv(of.weight.in_features, int64_t{kClusterDepth}),
                                    int64_t{choice.cluster_tiles.split});
      EXPECT_GT(choice.cluster_tiles.rows, 0);
      EXPECT_LE(steps, kMostClusterSteps);
    }
    if (choice.kernel == ProductKernel::kWgmma) {
      EXPECT_TRUE(IsLtInPlace(params, of.weight));
      EXPECT_NE(choice.wgmma_tiles, WgmmaTiles::kNone);
    }
    EXPECT_EQ(choice.tiles_per_block > 0, choice.kernel == ProductKernel::kRowParts);
    EXPECT_EQ(choice.units_per_block > 0, choice.kernel == ProductKernel::kFloatParts);
    if (choice.reason == ProductReason::kAlignment) {
      EXPECT_TRUE(reinterpret_cast<uintptr_t>(params.x.data) % 16 != 0 ||
                  params.x.row_stride * SizeOf(params.x.dtype) % 16 != 0 ||
                  params.x.dim(-1) * SizeOf(params.x.dtype) % 16 != 0);
    }
    if (device.batch_invariant) {
      EXPECT_TRUE(choice.kernel == ProductKernel::kLt || choice.kernel == ProductKernel::kWgmma);
      const auto [it, is_new] = invariant_.insert({Text(of), choice.kernel});
      EXPECT_EQ(it->second, choice.kernel) << "by the number of rows";
    }
  }
  // The case without its number of rows.
  static std::string Text(const MatMulCase& of) {
    const MatMulParams& p = of.params;
    return std::to_string(static_cast<int>(of.weight.dtype)) + " " +
           std::to_string(of.weight.in_features) + " " + std::to_string(of.weight.out_features) +
           " " + std::to_string(p.gated) + std::to_string(HasInputNorm(p)) +
           std::to_string(p.softcap > 0) + std::to_string(static_cast<int>(p.y.dtype)) +
           std::to_string(static_cast<int>(p.activation));
  }

  std::set<ProductKernel> kernels_;
  std::set<ProductReason> reasons_;
  std::map<std::string, ProductKernel> invariant_;
};

TEST_F(ProductSweepTest, EveryChoiceIsOneThatItsKernelComputes) {
  for (const ProductDevice& device : {kHopper, kAmpere, kBlackwell, kInvariant}) {
    for (const DType dtype : {DType::kFloat32, DType::kFloat16, DType::kBFloat16}) {
      for (const int64_t in : {8, 60, 512, 516, 765, 1024, 2048, 4096, 14336, 33280}) {
        for (const int64_t out : {8, 768, 2112, 2113, 3072, 8448, 8450, 28672, 50257}) {
          for (const int64_t rows : {1, 2, 4, 5, 8, 9, 16, 17, 64, 512, 4096}) {
            for (int variant = 0; variant < 16; ++variant) {
              MatMulCase of(dtype, rows, in, out);
              if ((variant & 1) != 0) of.Normed();
              if ((variant & 6) == 2 && out % 2 == 0) of.Gated();
              if ((variant & 6) == 4) of.IntoFloats();
              if ((variant & 6) == 6) of.Capped();
              if ((variant & 8) != 0) of.With(Activation::kGelu);
              Check(of, device);
            }
          }
        }
      }
    }
  }
  EXPECT_EQ(kernels_.size(), static_cast<size_t>(ProductKernel::kLt) + 1);
  EXPECT_EQ(reasons_.size(), static_cast<size_t>(ProductReason::kInvariant) + 1);
}

}  // namespace
}  // namespace beamline::cuda::product_picker_test
