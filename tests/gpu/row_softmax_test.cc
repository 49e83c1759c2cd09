#include "kernels/cuda/epilogues/row_softmax.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "tests/gpu/cuda_fixture.h"
#include "tests/kernels/small_cases.h"

namespace beamline::row_softmax_test {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

class RowSoftmaxTest : public CudaTypedTest {
 protected:
  // One rounding of the output, and what float32's exponential adds far from the maximum.
  double Tolerance() const {
    return dtype() == DType::kFloat32 ? 1e-5 : dtype() == DType::kFloat16 ? 6e-4 : 5e-3;
  }
  // Below it a type's numbers are coarse or gone.
  double Smallest() const { return dtype() == DType::kFloat16 ? 3.1e-8 : 2e-38; }

  void ExpectRow(std::span<const float> y, std::span<const float> x) {
    const double maximum = *std::max_element(x.begin(), x.end());
    double sum = 0;
    for (const float value : x) sum += std::exp(value - maximum);
    for (size_t i = 0; i < x.size(); ++i) {
      const double expected = std::exp(x[i] - maximum) / sum;
      // The negation keeps a NaN from passing.
      if (!(std::abs(y[i] - expected) <= Tolerance() * expected + Smallest())) {
        FAIL() << "column " << i << " of " << x.size() << ": " << y[i] << " instead of "
               << expected;
      }
    }
  }
  void ExpectRows(const TypedArray& y, const TypedArray& x, int64_t rows) {
    const std::vector<float> actual = y.Read();
    const int64_t width = static_cast<int64_t>(actual.size()) / rows;
    for (int64_t r = 0; r < rows; ++r) {
      ExpectRow(std::span(actual).subspan(r * width, width),
                std::span(x.host()).subspan(r * width, width));
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Types, RowSoftmaxTest,
                         testing::Values(DType::kFloat32, DType::kFloat16, DType::kBFloat16),
                         DTypeName);

TEST_P(RowSoftmaxTest, EveryWidthMatchesFloat64) {
  for (const int64_t width :
       {1,     2,     3,     7,     8,     9,     31,     64,     127,    256,   257,
        511,   1000,  1023,  1025,  2048,  2055,  4096,   4099,   8192,   8200,  16384,
        16391, 32768, 32771, 50257, 65536, 65543, 100003, 131072, 131075, 262147}) {
    SCOPED_TRACE(width);
    const int64_t rows = width < 2000 ? 9 : 3;  // odd widths: rows begin at every place in 16 bytes
    const TypedArray x = TypedArray::Random(backend(), dtype(), rows, width, 3.0f, random());
    const TypedArray y = TypedArray::Poisoned(backend(), dtype(), rows, width);
    cuda::RowSoftmax(device(), {x.device(), y.device()});
    ExpectRows(y, x, rows);
  }
}

// More rows than run at once, so that each place in shared memory has several; of every width that
// takes blocks of its own, beginning at every place in 16 bytes.
TEST_P(RowSoftmaxTest, ManyLongRows) {
  const auto shapes = Cases<std::pair<int64_t, int64_t>>({{900, 16389},
                                                          {640, 24573},
                                                          {533, 32768},
                                                          {470, 50257},
                                                          {200, 100003},
                                                          {120, 131071},
                                                          {900, 17000}},
                                                         {{340, 40001}, {400, 16408}});
  for (const auto& [rows, width] : shapes) {
    SCOPED_TRACE(width);
    const TypedArray x = TypedArray::Random(backend(), dtype(), rows, width, 3.0f, random());
    const TypedArray y = TypedArray::Poisoned(backend(), dtype(), rows, width);
    cuda::RowSoftmax(device(), {x.device(), y.device()});
    ExpectRows(y, x, rows);
    if (HasFatalFailure()) return;
  }
}

// Long rows of a matrix with room between them that is NaN, one row, and a part of a row's columns:
// what lies beside a row never counts, and is not written.
TEST_P(RowSoftmaxTest, LongRowsWithNeighbours) {
  for (const auto& [rows, width, stride] : {std::tuple<int64_t, int64_t, int64_t>{5, 20001, 20008},
                                            {3, 40000, 40003},
                                            {140, 20000, 20008},
                                            {1, 33333, 33333}}) {
    SCOPED_TRACE(width);
    for (const int64_t first : {0, 3}) {
      const int64_t count = width - first;
      std::vector<float> values(rows * stride, std::numeric_limits<float>::quiet_NaN());
      for (int64_t r = 0; r < rows; ++r) {
        const std::vector<float> row = Normal(count, 3.0f);
        std::copy(row.begin(), row.end(), values.begin() + r * stride + first);
      }
      const TypedArray x(backend(), dtype(), rows, stride, values);
      const TypedArray y(backend(), dtype(), rows, stride, std::vector<float>(rows * stride, 7.0f));
      cuda::RowSoftmax(device(),
                       {x.device().Columns(first, count), y.device().Columns(first, count)});
      const std::vector<float> actual = y.Read();
      for (int64_t r = 0; r < rows; ++r) {
        ExpectRow(std::span(actual).subspan(r * stride + first, count),
                  std::span(x.host()).subspan(r * stride + first, count));
        for (int64_t c = 0; c < stride; ++c) {
          if (c >= first && c < width) continue;
          ASSERT_EQ(actual[r * stride + c], 7.0f) << r << ", " << c;
        }
      }
    }
  }
}

// Rows that no cluster holds, and rows of x and y that lie differently in their 16-byte units.
TEST_P(RowSoftmaxTest, RowsThatAreReadTwice) {
  const int64_t wide = dtype() == DType::kFloat32 ? 262144 + 4 : 524288 + 8;
  for (const int64_t width : {wide, wide + 1}) {
    SCOPED_TRACE(width);
    const TypedArray x = TypedArray::Random(backend(), dtype(), 2, width, 3.0f, random());
    const TypedArray y = TypedArray::Poisoned(backend(), dtype(), 2, width);
    cuda::RowSoftmax(device(), {x.device(), y.device()});
    ExpectRows(y, x, 2);
  }
  const StridedMatrix x = RandomMatrix(dtype(), 5, 1000, 1003);
  const StridedMatrix y = Poisoned(dtype(), 5, 1000, 1001);
  cuda::RowSoftmax(device(), {x.tensor(), y.tensor()});
  reference::Matrix expected(5, 1000);
  for (int64_t r = 0; r < 5; ++r) {
    double sum = 0;
    for (int64_t c = 0; c < 1000; ++c) sum += std::exp(x.at(r, c));
    for (int64_t c = 0; c < 1000; ++c) expected.at(r, c) = std::exp(x.at(r, c)) / sum;
  }
  EXPECT_LE(y.RelativeError(expected), Tolerance());
}

TEST_P(RowSoftmaxTest, InPlace) {
  for (const int64_t width : {5, 777, 9000, 24000, 40001, 140000, 600001}) {
    SCOPED_TRACE(width);
    const TypedArray x = TypedArray::Random(backend(), dtype(), 3, width, 2.0f, random());
    cuda::RowSoftmax(device(), {x.device(), x.device()});
    ExpectRows(x, x, 3);
  }
}

// Numbers whose exponentials overflow float32, and columns that are masked.
TEST_P(RowSoftmaxTest, LargeNumbersAndMaskedColumns) {
  const float largest = dtype() == DType::kFloat16 ? 60000.0f : 3e38f;
  for (const int64_t width : {2, 33, 900, 5000, 20000, 70001, 200000}) {
    SCOPED_TRACE(width);
    std::vector<float> values = Normal(4 * width, 30.0f);
    std::bernoulli_distribution masked(0.4);
    for (float& value : values) value = masked(random()) ? -kInfinity : value;
    values[0] = 12.0f;  // row 0: an open column at least
    for (int64_t c = 0; c < width; ++c) values[width + c] = -kInfinity;
    values[2 * width - 1] = -5.0f;  // row 1: nothing but the last
    values[2 * width] = values[3 * width - 1] = largest;
    for (int64_t c = 0; c < width; ++c) values[3 * width + c] = -largest;
    const TypedArray x(backend(), dtype(), 4, width, values);
    const TypedArray y = TypedArray::Poisoned(backend(), dtype(), 4, width);
    cuda::RowSoftmax(device(), {x.device(), y.device()});
    ExpectRows(y, x, 4);
  }
}

TEST_P(RowSoftmaxTest, RowsWithoutASumAreNaN) {
  for (const int64_t width : {1, 40, 3000, 20000, 50257, 140001, 700000}) {
    SCOPED_TRACE(width);
    std::vector<float> values = Normal(4 * width);
    std::fill_n(values.begin(), width, -kInfinity);
    values[width + width / 2] = std::numeric_limits<float>::quiet_NaN();
    values[2 * width + width / 3] = kInfinity;
    const TypedArray x(backend(), dtype(), 4, width, values);
    const TypedArray y(backend(), dtype(), 4, width, std::vector<float>(4 * width, 0.5f));
    cuda::RowSoftmax(device(), {x.device(), y.device()});
    const std::vector<float> actual = y.Read();
    for (int64_t i = 0; i < 3 * width; ++i) ASSERT_TRUE(std::isnan(actual[i])) << i;
    ExpectRow(std::span(actual).subspan(3 * width), std::span(x.host()).subspan(3 * width));
  }
}

TEST_P(RowSoftmaxTest, ManyRowsAndNone) {
  const TypedArray x = TypedArray::Random(backend(), dtype(), 70001, 5, 1.0f, random());
  const TypedArray y = TypedArray::Poisoned(backend(), dtype(), 70001, 5);
  cuda::RowSoftmax(device(), {x.device().First(0), y.device().First(0)});
  cuda::RowSoftmax(device(), {x.device(), y.device()});
  ExpectRows(y, x, 70001);
}

}  // namespace
}  // namespace beamline::row_softmax_test
