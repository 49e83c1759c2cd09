// Products with GELU on Hopper's tensor cores, with tiles of either size, against the float64 twin.
#include "kernels/cuda/products/wgmma_product.h"

#include <algorithm>

#include "tests/gpu/cuda_fixture.h"
#include "tests/kernels/small_cases.h"

namespace beamline::wgmma_product_test {
namespace {

using cuda::WgmmaTiles;

class WgmmaProductTest : public CudaTypedTest {
 protected:
  struct Shape {
    int rows, in_features, out_features;
  };

  void SetUp() override {
    CudaTypedTest::SetUp();
    if (!device().has_wgmma()) GTEST_SKIP() << "the GPU is not Hopper's";
  }
  int RandomInt(int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random());
  }
  // Rows that begin at multiples of 16 bytes, with a gap between some of them.
  int64_t Stride(int columns) { return RoundUp(columns, 8) + 8 * RandomInt(0, 2); }
  double Tolerance() const { return dtype() == DType::kFloat16 ? 8e-4 : 6e-3; }
  // Not a number between the rows and behind the last one, so that reading there shows.
  StridedMatrix Operand(int rows, int columns, float scale) {
    const int64_t stride = Stride(columns);
    std::vector<float> values = Normal((rows + 2) * stride, scale);
    for (size_t i = 0; i < values.size(); ++i) {
      if (i >= static_cast<size_t>(rows * stride) || static_cast<int64_t>(i) % stride >= columns) {
        values[i] = std::numeric_limits<float>::quiet_NaN();
      }
    }
    return {backend(), dtype(), rows, columns, stride, std::move(values)};
  }
  static reference::Matrix Expected(const Shape& shape, const StridedMatrix& x,
                                    const StridedMatrix& weight, const TypedArray* bias) {
    reference::Matrix y(shape.rows, shape.out_features);
    for (int r = 0; r < shape.rows; ++r) {
      for (int c = 0; c < shape.out_features; ++c) {
        double sum = bias == nullptr ? 0.0 : bias->host()[c];
        for (int k = 0; k < shape.in_features; ++k) sum += x.at(r, k) * weight.at(c, k);
        y.at(r, c) = reference::Activate(Activation::kGelu, sum);
      }
    }
    return y;
  }
};
INSTANTIATE_TEST_SUITE_P(Types, WgmmaProductTest,
                         testing::Values(DType::kFloat16, DType::kBFloat16), DTypeName);

TEST_P(WgmmaProductTest, EveryShape) {
  std::vector<Shape> all = {{1, 8, 8},       {128, 64, 128},  {129, 65, 136}, {255, 72, 192},
                            {300, 257, 200}, {640, 768, 384}, {1, 1000, 72},  {2500, 8, 8}};
  for (int i = 0; i < 6; ++i) {
    all.push_back({RandomInt(1, 600), RandomInt(1, 400), 8 * RandomInt(1, 90)});
  }
  for (const Shape& shape : Cases(all, {all[0], all[2], all[4]})) {
    const StridedMatrix x = Operand(shape.rows, shape.in_features, 1.0f);
    const StridedMatrix weight = Operand(shape.out_features, shape.in_features,
                                         1.0f / std::sqrt(static_cast<float>(shape.in_features)));
    const TypedArray bias =
        TypedArray::Random(backend(), dtype(), 1, shape.out_features, 1.0f, random());
    for (const bool biased : {true, false}) {
      const reference::Matrix expected = Expected(shape, x, weight, biased ? &bias : nullptr);
      for (const WgmmaTiles tiles : {WgmmaTiles::kNarrow, WgmmaTiles::kWide}) {
        SCOPED_TRACE(testing::Message()
                     << shape.rows << " x " << shape.in_features << " x " << shape.out_features
                     << (biased ? " with bias" : "") << ", tiles " << static_cast<int>(tiles));
        const StridedMatrix y =
            Poisoned(dtype(), shape.rows, shape.out_features, Stride(shape.out_features));
        cuda::WgmmaGeluProduct(device(),
                               {.x = x.tensor(),
                                .weight = weight.tensor(),
                                .bias = biased ? bias.device_vector() : Tensor(),
                                .y = y.tensor()},
                               tiles);
        EXPECT_LE(y.RelativeError(expected), Tolerance());
      }
    }
  }
}

// Alone, among others and with tiles of either size a row has the same bits; what is not a number
// stays in its row.
TEST_P(WgmmaProductTest, ARowDependsOnNothingElse) {
  const Shape shape = {SmallCases() ? 130 : 700, 328, 400};
  std::vector<float> values = Normal(int64_t{shape.rows} * shape.in_features);
  const int broken = RandomInt(1, shape.rows - 2);
  std::fill_n(values.begin() + int64_t{broken} * shape.in_features, shape.in_features,
              std::numeric_limits<float>::quiet_NaN());
  const TypedArray x(backend(), dtype(), shape.rows, shape.in_features, values);
  const StridedMatrix weight = Operand(shape.out_features, shape.in_features, 0.05f);
  const auto product = [&](int begin, int rows, WgmmaTiles tiles) {
    const TypedArray y = TypedArray::Poisoned(backend(), dtype(), rows, shape.out_features);
    Tensor from = x.device().First(begin + rows);
    from.data = static_cast<char*>(from.data) + begin * from.row_stride * SizeOf(dtype());
    from = Tensor(from.data, dtype(), {rows, shape.in_features});
    cuda::WgmmaGeluProduct(
        device(), {.x = from, .weight = weight.tensor(), .bias = {}, .y = y.device()}, tiles);
    return y.Read();
  };
  const std::vector<float> all = product(0, shape.rows, WgmmaTiles::kWide);
  for (size_t i = 0; i < all.size(); ++i) {
    const bool of_broken = static_cast<int>(i) / shape.out_features == broken;
    ASSERT_EQ(std::isnan(all[i]), of_broken) << "element " << i;
  }
  for (const int row : {0, broken - 1, broken + 1, shape.rows - 1}) {
    const auto from = all.begin() + int64_t{row} * shape.out_features;
    for (const WgmmaTiles tiles : {WgmmaTiles::kNarrow, WgmmaTiles::kWide}) {
      const std::vector<float> alone = product(row, 1, tiles);
      EXPECT_TRUE(std::equal(alone.begin(), alone.end(), from)) << "row " << row;
    }
  }
}

TEST_P(WgmmaProductTest, InfinityStaysInfinite) {
  const Shape shape = {200, 64, 136};
  const StridedMatrix x = Operand(shape.rows, shape.in_features, 1.0f);
  const StridedMatrix weight = Operand(shape.out_features, shape.in_features, 1.0f);
  std::vector<float> values = Normal(shape.out_features);
  values[3] = values[130] = std::numeric_limits<float>::infinity();
  values[7] = -std::numeric_limits<float>::infinity();
  values[9] = std::numeric_limits<float>::quiet_NaN();
  const TypedArray bias(backend(), dtype(), 1, shape.out_features, values);
  for (const WgmmaTiles tiles : {WgmmaTiles::kNarrow, WgmmaTiles::kWide}) {
    const TypedArray y = TypedArray::Poisoned(backend(), dtype(), shape.rows, shape.out_features);
    cuda::WgmmaGeluProduct(
        device(),
        {.x = x.tensor(), .weight = weight.tensor(), .bias = bias.device_vector(), .y = y.device()},
        tiles);
    const std::vector<float> actual = y.Read();
    for (size_t i = 0; i < actual.size(); ++i) {
      const size_t column = i % shape.out_features;
      ASSERT_EQ(std::isnan(actual[i]), column == 9) << "element " << i;
      ASSERT_EQ(std::isinf(actual[i]), column == 3 || column == 130) << "element " << i;
      if (column == 7) {
        ASSERT_EQ(actual[i], 0.0f) << "element " << i;
      }
    }
  }
}

}  // namespace
}  // namespace beamline::wgmma_product_test
