// Why ProjectHeads scales the queries: in float16 the product of large queries and keys overflows
// before a scale that follows it could bring it back.
#include <algorithm>

#include "kernels/cuda/epilogues/row_softmax.h"
#include "tests/gpu/cuda_fixture.h"

namespace beamline::query_scale_test {
namespace {

constexpr int64_t kLength = 64;
constexpr int64_t kHeadDim = 128;
const float kScale = 1.0f / std::sqrt(static_cast<float>(kHeadDim));

class QueryScaleTest : public CudaTest {
 protected:
  // softmax(scale_after * (query * scale_before) key^T) value, every step's result in float16.
  double ErrorOf(const std::vector<float>& query, const std::vector<float>& key,
                 const std::vector<float>& value, float scale_before, float scale_after) {
    std::vector<float> scaled = query;
    for (float& q : scaled) q *= scale_before;
    const TypedArray q(backend(), DType::kFloat16, kLength, kHeadDim, scaled);
    const TypedArray k(backend(), DType::kFloat16, kLength, kHeadDim, key);
    const TypedArray v(backend(), DType::kFloat16, kLength, kHeadDim, value);
    const TypedArray raw = TypedArray::Poisoned(backend(), DType::kFloat16, kLength, kLength);
    cuda::LtProduct product = {
        .a = q.device(), .b = k.device(), .d = raw.device(), .transpose_b = true};
    EXPECT_TRUE(products().Run(product).ok());
    std::vector<float> scores = raw.Read();
    for (float& score : scores) score *= scale_after;
    const TypedArray weights(backend(), DType::kFloat16, kLength, kLength, scores);
    cuda::RowSoftmax(device(), {weights.device(), weights.device()});
    const TypedArray output = TypedArray::Poisoned(backend(), DType::kFloat16, kLength, kHeadDim);
    EXPECT_TRUE(
        products().Run({.a = weights.device(), .b = v.device(), .d = output.device()}).ok());
    return output.RelativeError(Reference(query, key, v.host()));
  }

  // In float64.
  static reference::Matrix Reference(const std::vector<float>& query, const std::vector<float>& key,
                                     const std::vector<float>& value) {
    reference::Matrix output(kLength, kHeadDim);
    for (int64_t i = 0; i < kLength; ++i) {
      std::vector<double> scores(kLength);
      for (int64_t j = 0; j < kLength; ++j) {
        for (int64_t c = 0; c < kHeadDim; ++c) {
          scores[j] += double{query[i * kHeadDim + c]} * key[j * kHeadDim + c] * kScale;
        }
      }
      const double maximum = *std::max_element(scores.begin(), scores.end());
      double sum = 0;
      for (double& score : scores) sum += score = std::exp(score - maximum);
      for (int64_t j = 0; j < kLength; ++j) {
        for (int64_t c = 0; c < kHeadDim; ++c) {
          output.at(i, c) += scores[j] / sum * value[j * kHeadDim + c];
        }
      }
    }
    return output;
  }

  // Rows of 64 and -64. A row's product with itself is 524,288, where float16 ends at 65,504;
  // scaled it is 46,341, and those with other rows are some thousands: each query finds its key.
  std::vector<float> Large() {
    std::vector<float> values = Normal(kLength * kHeadDim);
    for (float& value : values) value = std::copysign(64.0f, value);
    return values;
  }
};

TEST_F(QueryScaleTest, ScalingBeforeTheProductKeepsItInRange) {
  const std::vector<float> query = Large(), key = query;
  const std::vector<float> value = Normal(kLength * kHeadDim);
  const double before = ErrorOf(query, key, value, kScale, 1.0f);
  const double after = ErrorOf(query, key, value, 1.0f, kScale);
  std::printf("relative error, scaled before the product %.3g, after it %.3g\n", before, after);
  EXPECT_LE(before, 3e-3);
  EXPECT_TRUE(std::isinf(after)) << after;
}

// The same through the operators, which scale before and keep the products in float32.
TEST_F(QueryScaleTest, AttentionOfLargeQueriesAndKeys) {
  const std::vector<float> query = Large(), key = query;
  const std::vector<float> value = Normal(kLength * kHeadDim);
  std::vector<float> scaled = query;
  for (float& q : scaled) q *= kScale;
  const TypedArray q(backend(), DType::kFloat16, kLength, kHeadDim, scaled);
  const TypedArray k(backend(), DType::kFloat16, kLength, kHeadDim, key);
  const TypedArray v(backend(), DType::kFloat16, kLength, kHeadDim, value);
  const TypedArray output = TypedArray::Poisoned(backend(), DType::kFloat16, kLength, kHeadDim);
  const IndexArray offsets(backend(), {0, kLength});
  AttentionParams params;
  params.query = q.device();
  params.key = k.device();
  params.value = v.device();
  params.output = output.device();
  params.num_heads = params.num_kv_heads = 1;
  params.head_dim = kHeadDim;
  params.num_sequences = 1;
  params.query_offsets = offsets.device();
  params.max_query_length = kLength;
  backend().Attention(params);
  EXPECT_LE(output.RelativeError(Reference(query, key, v.host())), 3e-3);
}

// Within float16's range there is nothing to gain, and nothing is lost.
TEST_F(QueryScaleTest, SmallProductsAreAsAccurateEitherWay) {
  const std::vector<float> query = Normal(kLength * kHeadDim), key = Normal(kLength * kHeadDim);
  const std::vector<float> value = Normal(kLength * kHeadDim);
  const double before = ErrorOf(query, key, value, kScale, 1.0f);
  const double after = ErrorOf(query, key, value, 1.0f, kScale);
  EXPECT_LE(before, 3e-3);
  EXPECT_LE(after, 3e-3);
}

}  // namespace
}  // namespace beamline::query_scale_test
