// A NaN tells that a model overflowed, and is answered as such (engine/serving/finite_check.h): no
// operator turns the NaN of a row into a number, and none spreads it to other rows.
#include <cmath>
#include <vector>

#include "tests/kernels/op_test.h"

namespace beamline::nan_op_test {
namespace {

class NanOpTest : public OpTest {
 protected:
  // `rows` rows of `columns` random values, of which those that `bad` names hold one NaN each.
  DeviceArray<float> RowsWithNan(int rows, int columns, const std::vector<int>& bad) {
    std::vector<float> values = RandomFloats(static_cast<size_t>(rows) * columns);
    for (int row : bad) values[row * columns + RandomInt(0, columns - 1)] = std::nanf("");
    return Upload(values);
  }
};
BEAMLINE_INSTANTIATE_OP_TEST(NanOpTest);

TEST_P(NanOpTest, StaysInItsRowOfAProduct) {
  const int in_features = 72, half = 40;
  const Weight weight = RandomWeight(2 * half, in_features);
  for (int rows : {1, 2, 5, 16, 33, 130}) {
    const int bad = RandomInt(0, rows - 1);
    const auto x = RowsWithNan(rows, in_features, {bad});
    for (Activation activation : {Activation::kNone, Activation::kRelu, Activation::kGelu,
                                  Activation::kGeluTanh, Activation::kSilu, Activation::kTanh}) {
      for (bool gated : {false, true}) {
        const int columns = gated ? half : 2 * half;
        const auto y = Upload(std::vector<float>(rows * columns, 7.0f));
        MatMulParams params;
        params.x = x.tensor({rows, in_features});
        params.weight = weight.packed.get();
        params.activation = activation;
        params.gated = gated;
        params.y = y.tensor({rows, columns});
        backend().MatMul(params);
        const std::vector<float> values = y.Read();
        for (int i = 0; i < rows * columns; ++i) {
          ASSERT_EQ(std::isnan(values[i]), i / columns == bad)
              << rows << " rows, activation " << static_cast<int>(activation) << ", gated " << gated
              << ", row " << i / columns << ": " << values[i];
        }
      }
    }
  }
}

TEST_P(NanOpTest, StaysInItsTextsVector) {
  const std::vector<int> lengths = {3, 70, 1, 2};
  const std::vector<int32_t> offsets = OffsetsOf(lengths);
  const auto device_offsets = UploadIds(offsets);
  const int hidden_size = 40, count = static_cast<int>(lengths.size());
  // The first, one in between and the last token of the second text.
  for (int bad : {3, 30, 72}) {
    std::vector<float> values = RandomFloats(offsets.back() * hidden_size);
    values[bad * hidden_size + 7] = std::nanf("");
    const auto hidden = Upload(values);
    for (Pooling pooling : {Pooling::kMean, Pooling::kMax, Pooling::kMeanSqrtLength}) {
      for (bool normalize : {false, true}) {
        const auto output = Upload(std::vector<float>(count * hidden_size, 7.0f));
        PoolParams params;
        params.pooling = pooling;
        params.normalize = normalize;
        params.hidden = hidden.tensor({offsets.back(), hidden_size});
        params.offsets = device_offsets.data();
        params.num_sequences = count;
        params.output = output.tensor({count, hidden_size});
        backend().Pool(params);
        const std::vector<float> pooled = output.Read();
        for (int i = 0; i < count * hidden_size; ++i) {
          const int text = i / hidden_size, column = i % hidden_size;
          if (normalize && text == 1 && column != 7) continue;  // its length is none
          ASSERT_EQ(std::isnan(pooled[i]), text == 1 && column == 7)
              << "token " << bad << ", pooling " << static_cast<int>(pooling) << ", text " << text
              << ", column " << column << ": " << pooled[i];
        }
      }
    }
  }
}

}  // namespace
}  // namespace beamline::nan_op_test
