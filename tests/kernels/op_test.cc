#include "tests/kernels/op_test.h"

namespace beamline {

OpTest::Weight OpTest::RandomWeight(int64_t out_features, int64_t in_features) {
  const std::vector<float> values =
      RandomFloats(out_features * in_features, 1.0f / std::sqrt(static_cast<float>(in_features)));
  Weight weight{nullptr, reference::Matrix(out_features, in_features)};
  std::copy(values.begin(), values.end(), weight.values.values.begin());
  const HostMatrix matrix = {
      .data = values.data(), .dtype = DType::kFloat32, .rows = out_features, .cols = in_features};
  auto packed = backend().PackWeight({&matrix, 1}, DType::kFloat32);
  BEAMLINE_CHECK(packed.ok());
  weight.packed = *std::move(packed);
  return weight;
}

void OpTest::ExpectNear(const std::vector<float>& actual, const reference::Matrix& expected,
                        double tolerance) {
  ASSERT_EQ(actual.size(), expected.values.size());
  double worst = 0;
  for (size_t i = 0; i < actual.size(); ++i) {
    ASSERT_FALSE(std::isnan(actual[i])) << "element " << i << " is NaN";
    const double error = std::abs(actual[i] - expected.values[i]);
    ASSERT_LE(error, tolerance * (1 + std::abs(expected.values[i])))
        << "element " << i << " of row " << i / expected.cols << ": " << actual[i] << " instead of "
        << expected.values[i];
    worst = std::max(worst, error);
  }
  RecordProperty("worst_error", std::to_string(worst));
}

void OpTest::ExpectSameBits(std::span<const float> actual, std::span<const float> expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    uint32_t a = 0;
    uint32_t b = 0;
    std::memcpy(&a, &actual[i], sizeof(a));
    std::memcpy(&b, &expected[i], sizeof(b));
    ASSERT_EQ(a, b) << "element " << i << ": " << actual[i] << " and " << expected[i];
  }
}

std::vector<int32_t> OffsetsOf(const std::vector<int>& lengths) {
  std::vector<int32_t> offsets = {0};
  for (int length : lengths) offsets.push_back(offsets.back() + length);
  return offsets;
}

}  // namespace beamline
