#include <algorithm>

#include "base/math.h"
#include "tests/kernels/op_test.h"

namespace beamline::matmul_op_test {
namespace {

constexpr double kTolerance = 1e-5;  // float32 sums of up to a few thousand products

class MatMulTest : public OpTest {};
BEAMLINE_INSTANTIATE_OP_TEST(MatMulTest);

TEST_P(MatMulTest, MatchesReferenceAtOddShapes) {
  const struct {
    int rows, in_features, out_features;
  } shapes[] = {{1, 1, 1},    {1, 40, 6001},  {3, 120, 120}, {7, 256, 96},  {12, 64, 33},
                {13, 80, 31}, {64, 192, 576}, {301, 77, 65}, {37, 1030, 48}};
  for (const auto& shape : shapes) {
    SCOPED_TRACE(testing::Message()
                 << shape.rows << " x " << shape.in_features << " x " << shape.out_features);
    const Weight weight = RandomWeight(shape.out_features, shape.in_features);
    const auto x = RandomArray(shape.rows * shape.in_features);
    const auto bias = RandomArray(shape.out_features);
    const auto y = Output(shape.rows * shape.out_features);
    MatMulParams params;
    params.x = x.tensor({shape.rows, shape.in_features});
    params.weight = weight.packed.get();
    params.bias = bias.tensor({shape.out_features});
    params.y = y.tensor({shape.rows, shape.out_features});
    backend().MatMul(params);
    ExpectNear(y.Read(), reference::MatMul(params, weight.values), kTolerance);
  }
}

TEST_P(MatMulTest, AppliesEveryEpilogue) {
  const int rows = 19;
  for (int half : {64, 50, 200}) {
    const int in_features = 72;
    const Weight weight = RandomWeight(2 * half, in_features);
    const auto x = RandomArray(rows * in_features, 2.0f);
    const auto bias = RandomArray(2 * half);
    for (Activation activation : {Activation::kNone, Activation::kRelu, Activation::kGelu,
                                  Activation::kGeluTanh, Activation::kSilu, Activation::kTanh}) {
      for (bool gated : {false, true}) {
        SCOPED_TRACE(testing::Message() << "half " << half << " activation "
                                        << static_cast<int>(activation) << " gated " << gated);
        const int columns = gated ? half : 2 * half;
        const auto residual = RandomArray(rows * columns);
        const auto y = Output(rows * columns);
        MatMulParams params;
        params.x = x.tensor({rows, in_features});
        params.weight = weight.packed.get();
        params.bias = bias.tensor({2 * half});
        params.activation = activation;
        params.gated = gated;
        params.residual = residual.tensor({rows, columns});
        params.y = y.tensor({rows, columns});
        backend().MatMul(params);
        // A gate of up to about 10 multiplies the other factor's rounding errors.
        ExpectNear(y.Read(), reference::MatMul(params, weight.values), 8 * kTolerance);
      }
    }
  }
}

// As logits are capped.
TEST_P(MatMulTest, SoftcapsMatchReference) {
  const Weight weight = RandomWeight(65, 72);
  const auto x = RandomArray(19 * 72, 2.0f);
  const auto residual = RandomArray(19 * 65);
  for (float softcap : {0.5f, 30.0f}) {
    for (bool has_residual : {false, true}) {
      const auto y = Output(19 * 65);
      MatMulParams params;
      params.x = x.tensor({19, 72});
      params.weight = weight.packed.get();
      params.softcap = softcap;
      if (has_residual) params.residual = residual.tensor({19, 65});
      params.y = y.tensor({19, 65});
      backend().MatMul(params);
      ExpectNear(y.Read(), reference::MatMul(params, weight.values), kTolerance);
    }
  }
}

TEST_P(MatMulTest, ResidualMayAliasOutput) {
  const Weight weight = RandomWeight(48, 24);
  const auto x = RandomArray(5 * 24);
  const auto residual = RandomArray(5 * 48);
  MatMulParams params;
  params.x = x.tensor({5, 24});
  params.weight = weight.packed.get();
  params.residual = residual.tensor({5, 48});
  params.y = params.residual;
  const reference::Matrix expected = reference::MatMul(params, weight.values);
  backend().MatMul(params);
  ExpectNear(residual.Read(), expected, kTolerance);
}

// Also where the activation keeps the addition out of the product.
TEST_P(MatMulTest, ResidualMayAliasOutputBehindAnActivation) {
  for (int rows : {3, 41}) {
    for (Activation activation : {Activation::kNone, Activation::kRelu, Activation::kGelu}) {
      for (int columns : {48, 65}) {
        const Weight weight = RandomWeight(columns, 24);
        const auto x = RandomArray(rows * 24);
        const auto residual = RandomArray(rows * columns);
        MatMulParams params;
        params.x = x.tensor({rows, 24});
        params.weight = weight.packed.get();
        params.activation = activation;
        params.residual = residual.tensor({rows, columns});
        params.y = params.residual;
        params.y_owns_padding = true;
        const reference::Matrix expected = reference::MatMul(params, weight.values);
        backend().MatMul(params);
        ExpectNear(residual.Read(), expected, kTolerance);
      }
    }
  }
}

// Rows of y with room for whole tiles, as those of logits.
TEST_P(MatMulTest, MayWriteThePaddingThatYOwns) {
  for (int rows : {1, 7, 16, 18, 130}) {
    for (int out_features : {65, 257, 1001}) {
      for (bool biased : {false, true}) {
        SCOPED_TRACE(testing::Message() << rows << " rows, " << out_features << " columns");
        const int stride = RoundUp(out_features, 64);
        const Weight weight = RandomWeight(out_features, 72);
        const auto x = RandomArray(rows * 72);
        const auto bias = RandomArray(out_features);
        const auto y = Output(rows * stride);
        MatMulParams params;
        params.x = x.tensor({rows, 72});
        params.weight = weight.packed.get();
        if (biased) params.bias = bias.tensor({out_features});
        params.y = y.tensor({rows, stride}).Columns(0, out_features);
        params.y_owns_padding = true;
        backend().MatMul(params);
        const std::vector<float> padded = y.Read();
        std::vector<float> actual;
        for (int r = 0; r < rows; ++r) {
          actual.insert(actual.end(), padded.begin() + r * stride,
                        padded.begin() + r * stride + out_features);
        }
        ExpectNear(actual, reference::MatMul(params, weight.values), kTolerance);
      }
    }
  }
}

TEST_P(MatMulTest, ReadsAndWritesColumnSlices) {
  const Weight weight = RandomWeight(30, 20);
  const auto x = RandomArray(9 * 50);
  const auto y = Upload(std::vector<float>(9 * 70, 7.0f));
  MatMulParams params;
  params.x = x.tensor({9, 50}).Columns(11, 20);
  params.weight = weight.packed.get();
  params.y = y.tensor({9, 70}).Columns(13, 30);
  backend().MatMul(params);
  const reference::Matrix expected = reference::MatMul(params, weight.values);
  const std::vector<float> actual = y.Read();
  for (int r = 0; r < 9; ++r) {
    for (int c = 0; c < 70; ++c) {
      if (c >= 13 && c < 43) {
        EXPECT_NEAR(actual[r * 70 + c], expected.at(r, c - 13), 1e-5);
      } else {
        EXPECT_EQ(actual[r * 70 + c], 7.0f);
      }
    }
  }
}

TEST_P(MatMulTest, EmptyBatchDoesNothing) {
  const Weight weight = RandomWeight(8, 8);
  MatMulParams params;
  params.x = Tensor(nullptr, DType::kFloat32, {0, 8});
  params.weight = weight.packed.get();
  params.y = Tensor(nullptr, DType::kFloat32, {0, 8});
  backend().MatMul(params);
}

TEST_P(MatMulTest, StackedAndTransposedPartsMakeOneWeight) {
  const int in_features = 18;
  const std::vector<float> first = RandomFloats(10 * in_features);
  const std::vector<float> second = RandomFloats(in_features * 7);  // [in, out]
  const HostMatrix parts[] = {
      {.data = first.data(), .rows = 10, .cols = in_features},
      {.data = second.data(), .rows = in_features, .cols = 7, .transposed = true}};
  const auto packed = backend().PackWeight(parts, DType::kFloat32);
  ASSERT_TRUE(packed.ok()) << packed.status();
  EXPECT_EQ((*packed)->out_features(), 17);
  EXPECT_EQ((*packed)->in_features(), in_features);
  reference::Matrix values(17, in_features);
  for (int k = 0; k < in_features; ++k) {
    for (int o = 0; o < 10; ++o) values.at(o, k) = first[o * in_features + k];
    for (int o = 0; o < 7; ++o) values.at(10 + o, k) = second[k * 7 + o];
  }
  const auto x = RandomArray(3 * in_features);
  const auto y = Output(3 * 17);
  MatMulParams params;
  params.x = x.tensor({3, in_features});
  params.weight = packed->get();
  params.y = y.tensor({3, 17});
  backend().MatMul(params);
  ExpectNear(y.Read(), reference::MatMul(params, values), kTolerance);
}

TEST_P(MatMulTest, RefusesWeightsThatDoNotFit) {
  const std::vector<float> values(12);
  const HostMatrix parts[] = {{.data = values.data(), .rows = 3, .cols = 4},
                              {.data = values.data(), .rows = 4, .cols = 3}};
  EXPECT_EQ(backend().PackWeight(parts, DType::kFloat32).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(backend().PackWeight({}, DType::kFloat32).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_P(MatMulTest, RefusesTypesThatItCannotComputeIn) {
  for (DType dtype : {DType::kFloat16, DType::kBFloat16, DType::kInt8}) {
    const absl::Status supported = backend().SupportsDType(dtype);
    if (supported.ok()) continue;
    const std::vector<float> values(12);
    const HostMatrix matrix = {.data = values.data(), .rows = 3, .cols = 4};
    EXPECT_EQ(backend().PackWeight({&matrix, 1}, dtype).status(), supported);
    EXPECT_EQ(supported.code(), absl::StatusCode::kUnimplemented);
  }
}

// A row's result has the same bits alone and in every batch.
TEST_P(MatMulTest, RowsDoNotDependOnTheirBatch) {
  const int max_rows = 70;
  const int in_features = 192;
  const int out_features = 200;
  const Weight weight = RandomWeight(out_features, in_features);
  const auto bias = RandomArray(out_features);
  const auto x = RandomArray(max_rows * in_features);
  const auto run = [&](int first, int count) {
    const auto y = Output(count * out_features);
    MatMulParams params;
    params.x = x.tensor({max_rows, in_features}).First(count);
    params.x.data = x.data() + first * in_features;
    params.weight = weight.packed.get();
    params.bias = bias.tensor({out_features});
    params.activation = Activation::kGelu;
    params.y = y.tensor({count, out_features});
    backend().MatMul(params);
    return y.Read();
  };
  const std::vector<float> all = run(0, max_rows);
  for (int count = 1; count < max_rows; ++count) {
    const int first = RandomInt(0, max_rows - count);
    const std::vector<float> part = run(first, count);
    ExpectSameBits(part, std::span(all).subspan(first * out_features, part.size()));
  }
}

}  // namespace
}  // namespace beamline::matmul_op_test
