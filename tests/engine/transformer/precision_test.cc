// Weights and caches of types of their own: what a model computes with them is what it computes
// with the same numbers in float32.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "engine/checkpoint/checkpoint.h"
#include "engine/models/models.h"
#include "engine/transformer/float_conversion.h"
#include "engine/transformer/transformer.h"
#include "kernels/cpu/cpu_backend.h"
#include "tests/engine/transformer/changed_checkpoint.h"

namespace beamline::precision_test {
namespace {

using ::testing::HasSubstr;

// A checkpoint whose matrices, but for tables of tokens, are rounded to `dtype` and back. The
// files' own numbers have few bits: they are changed to ones that have many.
class RoundedCheckpoint final : public ChangedCheckpoint {
 public:
  RoundedCheckpoint(const std::string& name, DType dtype)
      : ChangedCheckpoint(name), dtype_(dtype) {}

 private:
  bool IsChanged(std::string_view name, const CheckpointTensor& tensor) const override {
    return tensor.shape.size() >= 2 && name.find("embed_") == std::string_view::npos;
  }
  void Change(std::vector<float>& values, int64_t width) const override {
    for (float& value : values) value *= 1.1f;
    if (dtype_ == DType::kInt8) return RoundToInt8(values, width);
    std::vector<std::byte> narrow, wide;
    AppendConverted(values.data(), values.size(), DType::kFloat32, dtype_, narrow);
    AppendConverted(narrow.data(), values.size(), dtype_, DType::kFloat32, wide);
    std::memcpy(values.data(), wide.data(), wide.size());
  }
  // Row by row, as compressed-tensors rounds symmetric int8.
  static void RoundToInt8(std::vector<float>& values, int64_t width) {
    for (auto row = values.begin(); row < values.end(); row += width) {
      float largest = 0.0f;
      std::for_each_n(row, width, [&](float v) { largest = std::max(largest, std::fabs(v)); });
      const float scale = largest / 127.5f;
      std::for_each_n(row, width, [scale](float& value) {
        value = std::clamp(std::nearbyint(value / scale), -128.0f, 127.0f) * scale;
      });
    }
  }

  const DType dtype_;
};

// The logits of every position of a made-up text, read in two pieces.
std::vector<float> Logits(const Checkpoint& checkpoint, const Precision& precision) {
  constexpr int32_t kTokens = 8, kVocabulary = 60;
  const auto description = DescribeModel(checkpoint);
  EXPECT_TRUE(description.ok()) << description.status();
  const auto backend = MakeCpuBackend({.num_threads = 2});
  StepLimits limits;
  limits.max_batch_tokens = kTokens;
  limits.max_sequences = 1;
  limits.max_logits_rows = kTokens;
  limits.num_blocks = 4;
  limits.block_size = 4;
  auto transformer =
      Transformer::Create(description->spec, checkpoint, precision, limits, *backend);
  EXPECT_TRUE(transformer.ok()) << transformer.status();
  if (!transformer.ok()) return {};
  std::vector<float> values;
  for (const auto& [begin, end] : {std::pair(0, 5), std::pair(5, kTokens)}) {
    StepBatch step;
    for (int32_t position = begin; position < end; ++position) {
      step.token_ids.push_back((position * 37 + 11) % kVocabulary);
      step.positions.push_back(position);
      step.slots.push_back((3 - position / 4) * 4 + position % 4);
      step.logits_rows.push_back(position - begin);
    }
    step.query_offsets = {0, end - begin};
    step.context_lengths = {end};
    step.block_tables = {3, 2};
    step.max_blocks = 2;
    const Tensor logits = (*transformer)->Decode(step);
    for (int64_t row = 0; row < logits.num_rows(); ++row) {
      const float* const first = logits.row<float>(row);
      values.insert(values.end(), first, first + logits.dim(-1));
    }
  }
  return values;
}

// The largest difference of two lists, and the largest magnitude of the first.
std::pair<float, float> Difference(const std::vector<float>& expected,
                                   const std::vector<float>& found) {
  EXPECT_EQ(found.size(), expected.size());
  float largest = 0.0f, error = 0.0f;
  for (size_t i = 0; i < std::min(found.size(), expected.size()); ++i) {
    largest = std::max(largest, std::fabs(expected[i]));
    error = std::max(error, std::fabs(found[i] - expected[i]));
  }
  return {error, largest};
}

struct Case {
  const char* model;
  DType dtype;
};

void PrintTo(const Case& value, std::ostream* out) {
  *out << value.model << " " << Name(value.dtype);
}

class PrecisionTest : public ::testing::TestWithParam<Case> {};

TEST_P(PrecisionTest, WeightsComputeAsTheSameNumbersInFloat32) {
  const DType dtype = GetParam().dtype;
  const RoundedCheckpoint stored(GetParam().model, DType::kFloat32);
  const RoundedCheckpoint rounded(GetParam().model, dtype);
  const std::vector<float> expected = Logits(rounded, DType::kFloat32);
  ASSERT_FALSE(expected.empty());
  EXPECT_EQ(Logits(stored, Precision(dtype, DType::kFloat32, std::nullopt)), expected);
  EXPECT_NE(Logits(stored, DType::kFloat32), expected);
}

// Each key and value errs by half a unit of the type's last place.
TEST_P(PrecisionTest, ACacheOfFewerBitsChangesLittle) {
  const DType dtype = GetParam().dtype;
  const RoundedCheckpoint stored(GetParam().model, DType::kFloat32);
  const std::vector<float> expected = Logits(stored, DType::kFloat32);
  const std::vector<float> found =
      Logits(stored, Precision(DType::kFloat32, DType::kFloat32, dtype));
  const auto [error, largest] = Difference(expected, found);
  EXPECT_GT(error, 0.0f);
  EXPECT_LT(error, (dtype == DType::kFloat16 ? 0x1p-8f : 0x1p-5f) * largest);
}

class Int8Test : public ::testing::TestWithParam<const char*> {};

// A scale is multiplied with a sum, not with each of its terms.
TEST_P(Int8Test, WeightsComputeAsTheSameNumbersInFloat32) {
  const RoundedCheckpoint stored(GetParam(), DType::kFloat32);
  const std::vector<float> expected =
      Logits(RoundedCheckpoint(GetParam(), DType::kInt8), DType::kFloat32);
  const auto [error, largest] =
      Difference(expected, Logits(stored, Precision(DType::kInt8, DType::kFloat32, std::nullopt)));
  EXPECT_LT(error, 2e-5f * largest);
  EXPECT_GT(Difference(expected, Logits(stored, DType::kFloat32)).first, 1e-4f * largest);
}

TEST_P(Int8Test, RowsOfFewerBitsChangeLittle) {
  const RoundedCheckpoint stored(GetParam(), DType::kFloat32);
  const std::vector<float> expected =
      Logits(RoundedCheckpoint(GetParam(), DType::kInt8), DType::kFloat32);
  const auto [error, largest] = Difference(expected, Logits(stored, DType::kInt8));
  EXPECT_GT(error, 1e-4f * largest);
  EXPECT_LT(error, 0.1f * largest);
}

INSTANTIATE_TEST_SUITE_P(Models, Int8Test,
                         ::testing::Values("llama-6of2x10-llama3", "qwen3-6of3x10-yarn",
                                           "mistral-4of2x6-dynamic"));

INSTANTIATE_TEST_SUITE_P(Models, PrecisionTest,
                         ::testing::Values(Case{"llama-6of2x10-llama3", DType::kFloat16},
                                           Case{"llama-6of2x10-llama3", DType::kBFloat16},
                                           Case{"qwen3-6of3x10-yarn", DType::kFloat16},
                                           Case{"gpt_neox-3x16-parallel", DType::kBFloat16},
                                           Case{"mistral-4of2x6-dynamic", DType::kFloat16}));

TEST(PrecisionSupportTest, TheCpuNamesWhatItComputesWith) {
  const auto backend = MakeCpuBackend({.num_threads = 1});
  for (const DType weights : {DType::kFloat32, DType::kBFloat16, DType::kFloat16, DType::kInt8}) {
    for (const DType cache : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
      EXPECT_TRUE(backend->SupportsPrecision(Precision(weights, DType::kFloat32, cache)).ok());
    }
  }
  EXPECT_TRUE(backend->SupportsPrecision(DType::kInt8).ok());
  const absl::Status eight_bits =
      backend->SupportsPrecision(Precision(DType::kFloat8E4M3, DType::kFloat32, std::nullopt));
  EXPECT_EQ(eight_bits.code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(
      eight_bits.message(),
      "weights is float8_e4m3, compute is float32, with which cpu does not compute; accepted: "
      "weights float32, bfloat16, float16 or int8 with compute float32, weights bfloat16 "
      "with compute bfloat16, weights int8 with compute int8, and with all of them cache "
      "float32, bfloat16 or float16");
  EXPECT_THAT(
      std::string(
          backend->SupportsPrecision(Precision(DType::kFloat16, DType::kFloat16, std::nullopt))
              .message()),
      HasSubstr("computes in float32, bfloat16 and int8, not in float16"));
}

}  // namespace
}  // namespace beamline::precision_test
