// Disentangled attention and the rows of convolutions in float16, bfloat16 and float32, against the
// float64 twin on the same (rounded) inputs.
#include <algorithm>
#include <optional>

#include "tests/gpu/half_op_fixture.h"
#include "tests/kernels/small_cases.h"

namespace beamline::half_positions_test {
namespace {

using testing::PrintToString;

// As of attention without positions (half_attention_test.cc).
double AttentionTolerance(DType dtype) {
  return dtype == DType::kFloat32 ? 6e-6 : dtype == DType::kFloat16 ? 1.6e-3 : 1.2e-2;
}

class HalfPositionsTest : public HalfOpTest {
 protected:
  static constexpr int kMaxDistance = 100, kNumPositions = 59;

  // Packed texts of these lengths, whose queries, keys and values are columns of one matrix.
  struct Inputs {
    Inputs(HalfPositionsTest& test, int num_heads, int head_dim, const std::vector<int>& lengths)
        : num_heads(num_heads), head_dim(head_dim), max_length(*std::ranges::max_element(lengths)) {
      offsets = {0};
      for (const int length : lengths) offsets.push_back(offsets.back() + length);
      const int64_t width = int64_t{num_heads} * head_dim;
      const float scale = 1.2f / std::sqrt(static_cast<float>(head_dim));
      heads.emplace(test.Random(offsets.back(), 3 * width));
      keys.emplace(test.Random(kNumPositions, width, scale));
      queries.emplace(test.Random(kNumPositions, width, scale));
      for (int i = 0; i <= 2 * kMaxDistance; ++i) rows.push_back(i * 7 % kNumPositions);
      device_rows.emplace(test.Ids(rows));
      device_offsets.emplace(test.Ids(offsets));
      slopes = {0.01f, 0.02f, 0.03f};
      device_slopes.emplace(test.backend(), DType::kFloat32, 1, 3, slopes);
    }

    AttentionParams Params(bool has_keys, bool has_queries, bool on_host) const {
      const auto matrix = [&](const TypedArray& array) {
        return on_host ? array.host_tensor() : array.device();
      };
      AttentionParams params;
      const int64_t width = int64_t{num_heads} * head_dim;
      params.query = matrix(*heads).Columns(0, width);
      params.key = matrix(*heads).Columns(width, width);
      params.value = matrix(*heads).Columns(2 * width, width);
      params.scale = 1.0f / std::sqrt(2.0f * static_cast<float>(head_dim));
      params.num_heads = params.num_kv_heads = num_heads;
      params.head_dim = head_dim;
      params.num_sequences = static_cast<int>(offsets.size()) - 1;
      params.query_offsets = on_host ? offsets.data() : device_offsets->device();
      params.max_query_length = max_length;
      if (has_keys) params.relative.keys = matrix(*keys);
      if (has_queries) params.relative.queries = matrix(*queries);
      params.relative.rows = on_host ? rows.data() : device_rows->device();
      params.relative.max_distance = kMaxDistance;
      return params;
    }
    const float* Slopes(bool on_host) const {
      return on_host ? slopes.data() : device_slopes->device().as<float>();
    }

    int num_heads, head_dim, max_length;
    std::vector<int32_t> offsets, rows;
    std::vector<float> slopes;
    std::optional<TypedArray> heads, keys, queries, device_slopes;
    std::optional<IndexArray> device_rows, device_offsets;
  };

  void Compare(AttentionParams params, const AttentionParams& host_params) {
    const TypedArray output = Output(params.query.num_rows(), params.query.dim(-1));
    params.output = output.device();
    backend().Attention(params);
    const std::vector<float> actual = output.Read();
    const reference::Matrix expected = reference::Attention(host_params);
    ASSERT_EQ(actual.size(), expected.values.size());
    double all_errors = 0, all_norms = 0;
    const auto head_dim = static_cast<size_t>(params.head_dim);
    for (size_t begin = 0; begin < actual.size(); begin += head_dim) {
      double error = 0, norm = 0;
      for (size_t i = begin; i < begin + head_dim; ++i) {
        error += (actual[i] - expected.values[i]) * (actual[i] - expected.values[i]);
        norm += expected.values[i] * expected.values[i];
      }
      // One query of one head: a NaN or a single wrong element shows.
      ASSERT_LE(std::sqrt(error), 5 * AttentionTolerance(dtype()) * std::sqrt(norm))
          << "head " << begin / head_dim;
      all_errors += error;
      all_norms += norm;
    }
    EXPECT_LE(std::sqrt(all_errors), AttentionTolerance(dtype()) * std::sqrt(all_norms));
  }
};

INSTANTIATE_TEST_SUITE_P(Types, HalfPositionsTest,
                         testing::Values(DType::kFloat32, DType::kFloat16, DType::kBFloat16),
                         DTypeName);

// Texts of a few tokens, which a warp a query computes, and of tiles that are full and are not; a
// text without tokens.
TEST_P(HalfPositionsTest, HeadsOfEverySize) {
  for (const int head_dim :
       Cases<int>({7, 8, 24, 32, 40, 64, 80, 96, 128, 160, 256}, {7, 64, 80})) {
    for (const std::vector<int>& lengths :
         {std::vector<int>{1, 8, 0, 5}, {1, 7, 63, 0, 64, 65, 200}}) {
      const Inputs inputs(*this, 3, head_dim, lengths);
      for (const auto& [has_keys, has_queries] :
           {std::pair(true, true), {true, false}, {false, true}}) {
        SCOPED_TRACE(testing::Message()
                     << "heads of " << head_dim << ", texts of " << PrintToString(lengths)
                     << ", keys " << has_keys << ", queries " << has_queries);
        Compare(inputs.Params(has_keys, has_queries, /*on_host=*/false),
                inputs.Params(has_keys, has_queries, /*on_host=*/true));
        if (HasFatalFailure()) return;
      }
    }
  }
}

// With what else is done to scores.
TEST_P(HalfPositionsTest, EditedAndMaskedScores) {
  for (const std::vector<int>& lengths : {std::vector<int>{1, 8, 5}, {70, 130, 3}}) {
    const Inputs inputs(*this, 3, 40, lengths);
    for (const int window : {0, 33}) {
      for (const bool causal : {false, true}) {
        AttentionParams params = inputs.Params(true, true, /*on_host=*/false);
        AttentionParams host_params = inputs.Params(true, true, /*on_host=*/true);
        params.window = host_params.window = window;
        params.causal = host_params.causal = causal;
        Compare(params, host_params);
        params.softcap = host_params.softcap = 1.2f;
        params.alibi_slopes = inputs.Slopes(/*on_host=*/false);
        host_params.alibi_slopes = inputs.Slopes(/*on_host=*/true);
        Compare(params, host_params);
        if (HasFatalFailure()) return;
      }
    }
  }
}

// The same alone and beside other texts, of whichever kernel.
TEST_P(HalfPositionsTest, TheSameInAnyBatch) {
  const Inputs inputs(*this, 3, 64, {70, 3, 130});
  AttentionParams params = inputs.Params(true, true, /*on_host=*/false);
  const TypedArray all = Output(203, 192), alone = Output(70, 192);
  params.output = all.device();
  backend().Attention(params);
  for (Tensor* tensor : {&params.query, &params.key, &params.value}) *tensor = tensor->First(70);
  params.num_sequences = 1;
  params.max_query_length = 70;
  params.output = alone.device();
  backend().Attention(params);
  std::vector<float> first = all.Read();
  first.resize(70 * 192);
  EXPECT_EQ(alone.Read(), first);
}

TEST_P(HalfPositionsTest, UnfoldMatchesReference) {
  const std::vector<int32_t> offsets = {0, 1, 8, 8, 10, 50, 50};
  const IndexArray device_offsets = Ids(offsets);
  for (const int width : {1, 24, 257, 768}) {
    for (const int kernel_size : {1, 3, 9}) {
      SCOPED_TRACE(testing::Message() << width << " wide, kernel " << kernel_size);
      const TypedArray input = Random(offsets.back(), width);
      const TypedArray output = Output(offsets.back(), int64_t{width} * kernel_size);
      UnfoldParams params;
      params.num_sequences = static_cast<int>(offsets.size()) - 1;
      params.kernel_size = kernel_size;
      params.input = input.device();
      params.offsets = device_offsets.device();
      params.output = output.device();
      backend().Unfold(params);
      params.input = input.host_tensor();
      params.offsets = offsets.data();
      const reference::Matrix expected = reference::Unfold(params);
      const std::vector<float> actual = output.Read();
      ASSERT_EQ(actual.size(), expected.values.size());
      for (size_t i = 0; i < actual.size(); ++i) ASSERT_EQ(actual[i], expected.values[i]) << i;
    }
  }
}

}  // namespace
}  // namespace beamline::half_positions_test
