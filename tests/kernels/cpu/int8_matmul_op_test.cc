// Weights in int8, multiplied in float32 and in int8, with every vector extension.
#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/kernels/op_test.h"

namespace beamline::int8_matmul_op_test {
namespace {

constexpr double kTolerance = 1e-5;  // float32 sums of up to a few thousand products

struct Shape {
  int rows, in_features, out_features;
};

// Row by row to int8 and back, as compressed-tensors rounds symmetric int8.
std::vector<float> FakeQuantized(const std::vector<float>& values, int64_t width) {
  std::vector<float> quantized(values.size());
  for (size_t begin = 0; begin < values.size(); begin += static_cast<size_t>(width)) {
    float largest = 0.0f;
    for (int64_t i = 0; i < width; ++i) largest = std::max(largest, std::fabs(values[begin + i]));
    const float scale = largest / 127.5f;
    for (int64_t i = 0; i < width && scale > 0.0f; ++i) {
      const float code = std::clamp(std::nearbyint(values[begin + i] / scale), -128.0f, 127.0f);
      quantized[begin + i] = code * scale;
    }
  }
  return quantized;
}

class Int8MatMulTest : public OpTest {
 protected:
  static Precision WeightsOnly() { return {DType::kInt8, DType::kFloat32, std::nullopt}; }

  std::unique_ptr<PackedWeight> Pack(const std::vector<float>& values, const Shape& shape,
                                     const Precision& precision) {
    const HostMatrix matrix = {
        .data = values.data(), .rows = shape.out_features, .cols = shape.in_features};
    auto weight = backend().PackWeight({&matrix, 1}, precision);
    EXPECT_TRUE(weight.ok()) << weight.status();
    return *std::move(weight);
  }
  // Products of `num_rows` rows of x, from `first` on.
  std::vector<float> Multiply(const DeviceArray<float>& x, int first, int num_rows,
                              const Shape& shape, const PackedWeight& weight) {
    const auto y = Output(num_rows * shape.out_features);
    MatMulParams params;
    params.x = x.tensor({shape.rows, shape.in_features});
    params.x.data = params.x.row<float>(first);
    params.x.dims[0] = num_rows;
    params.weight = &weight;
    params.y = y.tensor({num_rows, shape.out_features});
    backend().MatMul(params);
    return y.Read();
  }
  // Products of `inputs`, with an activation, a bias and a gate.
  void Check(const std::vector<float>& values, const std::vector<float>& inputs, const Shape& shape,
             const Precision& precision) {
    const auto weight = Pack(values, shape, precision);
    reference::Matrix rounded(shape.out_features, shape.in_features);
    const std::vector<float> dequantized = FakeQuantized(values, shape.in_features);
    std::ranges::copy(dequantized, rounded.values.begin());
    const auto x = Upload(inputs);
    const auto rounded_x = Upload(
        precision.compute == DType::kInt8 ? FakeQuantized(inputs, shape.in_features) : inputs);
    const auto bias = RandomArray(shape.out_features);
    for (const bool gated : {false, true}) {
      if (gated && shape.out_features % 2 != 0) continue;
      const int columns = gated ? shape.out_features / 2 : shape.out_features;
      const auto y = Output(shape.rows * columns);
      MatMulParams params;
      params.x = x.tensor({shape.rows, shape.in_features});
      params.weight = weight.get();
      params.bias = bias.tensor({shape.out_features});
      params.activation = Activation::kSilu;
      params.gated = gated;
      params.y = y.tensor({shape.rows, columns});
      backend().MatMul(params);
      params.x = rounded_x.tensor({shape.rows, shape.in_features});
      // A gate of up to about 10 multiplies the other factor's rounding errors.
      ExpectNear(y.Read(), reference::MatMul(params, rounded), gated ? 8 * kTolerance : kTolerance);
    }
  }
};
BEAMLINE_INSTANTIATE_OP_TEST(Int8MatMulTest);

constexpr Shape kShapes[] = {{1, 40, 6002},  {1, 1, 1},      {2, 3, 2},     {7, 255, 96},
                             {13, 80, 31},   {64, 192, 576}, {49, 77, 66},  {100, 33, 30},
                             {37, 1030, 48}, {5, 2048, 512}, {95, 128, 258}};

TEST_P(Int8MatMulTest, MatchesReferenceOfQuantizedWeights) {
  for (const Shape& shape : kShapes) {
    SCOPED_TRACE(testing::Message()
                 << shape.rows << " x " << shape.in_features << " x " << shape.out_features);
    Check(RandomFloats(shape.out_features * shape.in_features, 0.1f),
          RandomFloats(shape.rows * shape.in_features), shape, WeightsOnly());
  }
}

TEST_P(Int8MatMulTest, MatchesReferenceOfQuantizedRowsToo) {
  for (const Shape& shape : kShapes) {
    SCOPED_TRACE(testing::Message()
                 << shape.rows << " x " << shape.in_features << " x " << shape.out_features);
    Check(RandomFloats(shape.out_features * shape.in_features, 0.1f),
          RandomFloats(shape.rows * shape.in_features), shape, DType::kInt8);
  }
}

// As many of the largest codes as an int32 holds: products of bytes would saturate.
TEST_P(Int8MatMulTest, SumsOfTheLargestCodesAreExact) {
  const Shape shape = {3, 131072, 17};
  const auto signs = [&](int rows, int negative) {
    std::vector<float> values(static_cast<size_t>(rows) * shape.in_features, 1.0f);
    std::fill_n(values.begin() + static_cast<int64_t>(negative) * shape.in_features,
                shape.in_features, -1.0f);
    return values;
  };
  const std::vector<float> values = signs(shape.out_features, 1), inputs = signs(shape.rows, 2);
  const auto weight = Pack(values, shape, DType::kInt8);
  const std::vector<float> products = Multiply(Upload(inputs), 0, shape.rows, shape, *weight);
  const float positive = FakeQuantized({1.0f}, 1)[0], negative = FakeQuantized({-1.0f}, 1)[0];
  for (int r = 0; r < shape.rows; ++r) {
    for (int c = 0; c < shape.out_features; ++c) {
      const double expected = double{r == 2 ? negative : positive} *
                              double{c == 1 ? negative : positive} * shape.in_features;
      EXPECT_NEAR(products[r * shape.out_features + c], expected, 1e-6 * std::fabs(expected));
    }
  }
}

// A row alone and among others, whatever block of rows it is in.
TEST_P(Int8MatMulTest, ARowsProductIsTheSameInAnyBatch) {
  const Shape shape = {50, 96, 70};
  const std::vector<float> values = RandomFloats(shape.out_features * shape.in_features, 0.1f);
  const auto x = RandomArray(shape.rows * shape.in_features);
  for (const Precision& precision : {WeightsOnly(), Precision(DType::kInt8)}) {
    const auto weight = Pack(values, shape, precision);
    const std::vector<float> all = Multiply(x, 0, shape.rows, shape, *weight);
    for (int row = 0; row < shape.rows; ++row) {
      ExpectSameBits(Multiply(x, row, 1, shape, *weight),
                     std::span(all).subspan(row * shape.out_features, shape.out_features));
    }
  }
}

// A row of zeros, one that is not finite, and rows of very small and very large numbers.
TEST_P(Int8MatMulTest, RowsOfAnyRange) {
  const Shape shape = {5, 37, 33};
  std::vector<float> values = RandomFloats(shape.out_features * shape.in_features, 0.1f);
  std::fill_n(values.begin(), shape.in_features, 0.0f);
  std::vector<float> inputs = RandomFloats(shape.rows * shape.in_features);
  const auto row = [&](int r) {
    return std::span(inputs).subspan(r * shape.in_features, shape.in_features);
  };
  std::ranges::fill(row(0), 0.0f);
  for (float& value : row(1)) value *= 1e-30f;
  for (float& value : row(2)) value *= 1e30f;
  row(3)[36] = std::numeric_limits<float>::quiet_NaN();
  row(4)[0] = std::numeric_limits<float>::infinity();
  const auto weight = Pack(values, shape, DType::kInt8);
  const std::vector<float> products = Multiply(Upload(inputs), 0, shape.rows, shape, *weight);
  for (int c = 0; c < shape.out_features; ++c) {
    EXPECT_EQ(products[c], 0.0f);
    EXPECT_EQ(std::fabs(products[shape.out_features + c]) > 0.0f, c > 0) << c;
    EXPECT_TRUE(std::isfinite(products[2 * shape.out_features + c]));
    EXPECT_TRUE(std::isnan(products[3 * shape.out_features + c]));
    EXPECT_TRUE(std::isnan(products[4 * shape.out_features + c]));
  }
}

TEST_P(Int8MatMulTest, RefusesDeeperProducts) {
  const std::vector<float> values(131073);
  const HostMatrix matrix = {.data = values.data(), .rows = 1, .cols = 131073};
  EXPECT_EQ(backend().PackWeight({&matrix, 1}, DType::kInt8).status().message(),
            "products in int8 have at most 131072 input features, and a weight has 131073; use "
            "compute=float32");
  EXPECT_TRUE(backend().PackWeight({&matrix, 1}, WeightsOnly()).ok());
}

}  // namespace
}  // namespace beamline::int8_matmul_op_test
