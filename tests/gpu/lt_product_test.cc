#include "kernels/cuda/epilogues/lt_product.h"

#include <set>
#include <string>

#include "gtest/gtest.h"

namespace beamline::cuda::lt_product_test {
namespace {

class LtProductTest : public testing::Test {
 protected:
  // A valid product of its epilogue: [24, 40] = [24, 32] [32, 40].
  LtProduct Product(LtEpilogue epilogue, DType dtype = DType::kFloat16) {
    LtProduct p;
    p.a = Tensor(memory_, dtype, {24, 32});
    p.b = Tensor(memory_, dtype, {32, 40});
    p.d = Tensor(memory_, dtype, {24, 40});
    p.epilogue = epilogue;
    if (epilogue == LtEpilogue::kBgradA) {
      p.transpose_a = true;
      p.a = Tensor(memory_, dtype, {32, 24});
    }
    const int64_t bias_size = epilogue == LtEpilogue::kBgradA ? 24 : 40;
    if (ReadsBias(epilogue) || WritesBias(epilogue)) p.bias = Tensor(memory_, dtype, {bias_size});
    if (UsesReluMask(epilogue)) p.aux = Tensor(memory_, DType::kInt8, {24, 16});
    if (UsesGeluInput(epilogue)) p.aux = Tensor(memory_, dtype, {24, 40});
    return p;
  }
  // The message of a refusal begins with the field's name.
  void ExpectRefused(const LtProduct& product, const std::string& field) {
    const absl::Status status = Validate(product);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << field;
    EXPECT_EQ(std::string(status.message()).rfind(field, 0), 0u) << status;
  }

  alignas(256) char memory_[256] = {};  // never read: addresses alone count
};

TEST_F(LtProductTest, EveryEpilogueHasAValidProductAndAName) {
  std::set<std::string> names;
  for (int e = 0; e < kNumLtEpilogues; ++e) {
    const auto epilogue = static_cast<LtEpilogue>(e);
    EXPECT_TRUE(Validate(Product(epilogue)).ok()) << Validate(Product(epilogue));
    names.insert(Name(epilogue));
  }
  EXPECT_EQ(names.size(), static_cast<size_t>(kNumLtEpilogues));
}

TEST_F(LtProductTest, MissingAndSuperfluousTensorsAreRefused) {
  for (int e = 0; e < kNumLtEpilogues; ++e) {
    LtProduct p = Product(static_cast<LtEpilogue>(e));
    p.bias = p.bias.empty() ? Tensor(memory_, DType::kFloat16, {40}) : Tensor();
    ExpectRefused(p, "bias");
    p = Product(static_cast<LtEpilogue>(e));
    p.aux = p.aux.empty() ? Tensor(memory_, DType::kFloat16, {24, 40}) : Tensor();
    ExpectRefused(p, "aux");
  }
}

TEST_F(LtProductTest, WrongShapesAreRefused) {
  LtProduct p = Product(LtEpilogue::kNone);
  p.b = Tensor(memory_, DType::kFloat16, {31, 40});
  ExpectRefused(p, "b");
  p.transpose_b = true;
  ExpectRefused(p, "b");
  p = Product(LtEpilogue::kNone);
  p.transpose_a = true;
  ExpectRefused(p, "a");
  p = Product(LtEpilogue::kNone);
  p.c = Tensor(memory_, DType::kFloat16, {24, 39});
  ExpectRefused(p, "c");
  p = Product(LtEpilogue::kNone);
  p.d.row_stride = 39;
  ExpectRefused(p, "d");
  p = Product(LtEpilogue::kNone);
  p.d = Tensor(memory_, DType::kFloat16, {3, 24, 40});  // a and b are shared by the batch
  EXPECT_TRUE(Validate(p).ok());
  p.a = Tensor(memory_, DType::kFloat16, {2, 24, 32});
  ExpectRefused(p, "a");
  p = Product(LtEpilogue::kReluAux);
  p.aux = Tensor(memory_, DType::kInt8, {24, 20});
  ExpectRefused(p, "aux");
  p = Product(LtEpilogue::kDGelu);
  p.aux.row_stride = 41;
  ExpectRefused(p, "aux");
}

TEST_F(LtProductTest, WrongTypesAreRefused) {
  LtProduct p = Product(LtEpilogue::kNone);
  p.b.dtype = DType::kBFloat16;
  ExpectRefused(p, "b");
  p = Product(LtEpilogue::kNone, DType::kInt8);
  ExpectRefused(p, "a");
  p = Product(LtEpilogue::kNone);
  p.d.dtype = DType::kFloat32;
  EXPECT_TRUE(Validate(p).ok());
  p.d.dtype = DType::kBFloat16;
  ExpectRefused(p, "d");
  p = Product(LtEpilogue::kNone);
  p.tf32 = true;
  ExpectRefused(p, "tf32");
  p = Product(LtEpilogue::kNone);
  const float scale = 1.0f;
  p.a_scale = &scale;
  ExpectRefused(p, "a scale");
}

TEST_F(LtProductTest, Float8IsTransposedAndAMultipleOf16) {
  LtProduct p;
  p.a = Tensor(memory_, DType::kFloat8E4M3, {5, 32});
  p.b = Tensor(memory_, DType::kFloat8E4M3, {48, 32});
  p.d = Tensor(memory_, DType::kBFloat16, {5, 48});
  p.transpose_b = true;
  EXPECT_TRUE(Validate(p).ok()) << Validate(p);
  p.b = Tensor(memory_, DType::kFloat8E4M3, {40, 32});
  p.d = Tensor(memory_, DType::kBFloat16, {5, 40});
  ExpectRefused(p, "b");
  p.b = Tensor(memory_, DType::kFloat8E4M3, {32, 48});
  p.d = Tensor(memory_, DType::kBFloat16, {5, 48});
  p.transpose_b = false;
  ExpectRefused(p, "float8_e4m3");
  p.b = Tensor(memory_, DType::kFloat8E4M3, {48, 32});
  p.transpose_b = true;
  p.b_scale = reinterpret_cast<const float*>(memory_ + 4);
  ExpectRefused(p, "a scale");
  p.b_scale = reinterpret_cast<const float*>(memory_ + 16);
  EXPECT_TRUE(Validate(p).ok());
  p.epilogue = LtEpilogue::kDRelu;
  ExpectRefused(p, "the epilogue drelu");
}

TEST_F(LtProductTest, SumsHaveTheirConditions) {
  LtProduct p = Product(LtEpilogue::kBgradA);
  p.transpose_a = false;
  p.a = Tensor(memory_, DType::kFloat16, {24, 32});
  ExpectRefused(p, "a");
  p = Product(LtEpilogue::kBgradB);
  p.transpose_b = true;
  p.b = Tensor(memory_, DType::kFloat16, {40, 32});
  ExpectRefused(p, "b");
  p = Product(LtEpilogue::kDReluBgrad);
  p.d = Tensor(memory_, DType::kFloat16, {2, 24, 40});
  ExpectRefused(p, "d");
}

TEST_F(LtProductTest, KeysTellKindsApart) {
  const LtProduct p = Product(LtEpilogue::kBias);
  std::set<AlgorithmKey> keys = {KeyOf(p)};
  const auto expect_new = [&](const LtProduct& other) {
    EXPECT_TRUE(keys.insert(KeyOf(other)).second);
  };
  for (int e = 2; e < kNumLtEpilogues; ++e) expect_new(Product(static_cast<LtEpilogue>(e)));
  expect_new(Product(LtEpilogue::kBias, DType::kBFloat16));
  LtProduct other = p;
  other.d.row_stride = 48;
  expect_new(other);
  other = p;
  other.d.dtype = DType::kFloat32;
  expect_new(other);
  other = p;
  other.c = p.d;
  expect_new(other);
  other = p;
  other.a.data = memory_ + 4;
  expect_new(other);
  other = p;
  other.a.data = memory_ + 32;  // as well aligned as before
  EXPECT_EQ(KeyOf(other), KeyOf(p));
}

TEST_F(LtProductTest, BucketsHoldAQuarterAtMost) {
  for (int64_t rows = 1; rows < 5000; ++rows) {
    const int64_t bucket = BucketRows(rows);
    EXPECT_GE(bucket, rows);
    EXPECT_LE(bucket * 4, rows * 5 + 3) << rows;
    EXPECT_EQ(BucketRows(bucket), bucket);
  }
  LtProduct p = Product(LtEpilogue::kNone);
  p.bucket_rows = true;
  LtProduct more = p;
  more.a.dims[0] = more.d.dims[0] = 22;
  EXPECT_EQ(KeyOf(p), KeyOf(more));
  more.a.dims[0] = more.d.dims[0] = 25;
  EXPECT_NE(KeyOf(p), KeyOf(more));
}

}  // namespace
}  // namespace beamline::cuda::lt_product_test
