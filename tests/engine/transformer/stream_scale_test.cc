// Residual streams beyond the range of float16, held within it.
#include "engine/transformer/stream_scale.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "engine/checkpoint/checkpoint.h"
#include "engine/loading/make_backend.h"
#include "engine/models/models.h"
#include "engine/transformer/float_conversion.h"
#include "engine/transformer/transformer.h"
#include "kernels/cpu/cpu_backend.h"
#include "tests/engine/test_device.h"
#include "tests/engine/transformer/changed_checkpoint.h"
#include "tests/engine/transformer/half_backend.h"
#include "tests/kernels/test_gpu_memory.h"

namespace beamline::stream_scale_test {
namespace {

constexpr float kLargestHalf = 65504.0f;

// A checkpoint whose feed-forward outputs are `growth` times as large.
class GrownCheckpoint final : public ChangedCheckpoint {
 public:
  GrownCheckpoint(const std::string& name, float growth)
      : ChangedCheckpoint(name), growth_(growth) {}

 private:
  bool IsChanged(std::string_view name, const CheckpointTensor& /*tensor*/) const override {
    return name.ends_with("DenseReluDense.wo.weight") ||
           name.find(".fc2.") != std::string_view::npos;
  }
  void Change(std::vector<float>& values, int64_t /*width*/) const override {
    for (float& value : values) value *= growth_;
  }

  const float growth_;
};

// The logits of every position of a made-up answer to a made-up text.
std::vector<float> Logits(const TransformerSpec& spec, const Checkpoint& checkpoint,
                          Backend& backend, DType dtype = DType::kFloat32) {
  constexpr int32_t kTokens = 6;
  StepLimits limits;
  limits.max_batch_tokens = 16;
  limits.max_sequences = 1;
  limits.max_logits_rows = kTokens;
  limits.num_blocks = 2;
  limits.block_size = 8;
  auto created = Transformer::Create(spec, checkpoint, dtype, limits, backend);
  EXPECT_TRUE(created.ok()) << created.status();
  if (!created.ok()) return {};
  Transformer& transformer = **created;
  EncoderBatch source;
  source.token_ids = {7, 3, 11, 5, 2, 9};
  source.offsets = {0, kTokens};
  source.slots.resize(kTokens);
  std::iota(source.slots.begin(), source.slots.end(), 8);
  transformer.EncodeMemory(source);
  StepBatch step;
  step.token_ids = {0, 4, 8, 6, 3, 10};
  step.positions.resize(kTokens);
  std::iota(step.positions.begin(), step.positions.end(), 0);
  step.slots = step.logits_rows = step.positions;
  step.query_offsets = {0, kTokens};
  step.context_lengths = {kTokens};
  step.block_tables = {0};
  step.max_blocks = 1;
  step.memory_lengths = {kTokens};
  step.memory_tables = {1};
  step.max_memory_blocks = 1;
  const Tensor logits = transformer.Decode(step);
  const int64_t width = logits.dim(-1);
  std::vector<float> values(static_cast<size_t>(logits.num_elements()));
  for (int64_t row = 0; row < logits.num_rows(); ++row) {
    EXPECT_TRUE(backend
                    .CopyToHost(logits.row<float>(row), values.data() + row * width,
                                static_cast<size_t>(width) * sizeof(float))
                    .ok());
  }
  return values;
}

TransformerSpec SpecOf(const Checkpoint& checkpoint) {
  const auto description = DescribeModel(checkpoint);
  EXPECT_TRUE(description.ok()) << description.status();
  return description->spec;
}

bool AllAreFinite(const std::vector<float>& values) {
  return std::ranges::all_of(values, [](float value) { return std::isfinite(value); });
}

void ExpectNear(const std::vector<float>& found, const std::vector<float>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  ASSERT_TRUE(AllAreFinite(found));
  float largest = 0.0f, error = 0.0f;
  for (size_t i = 0; i < expected.size(); ++i) {
    largest = std::max(largest, std::fabs(expected[i]));
    error = std::max(error, std::fabs(found[i] - expected[i]));
  }
  // Each of some ten roundings on the way is half of float16's 2^-10 at most.
  EXPECT_LT(error, 0.01f * largest);
}

class StreamScaleTest : public ::testing::TestWithParam<const char*> {};

// A power of two changes no bit of what norms make of the stream.
TEST_P(StreamScaleTest, ChangesNoBit) {
  const GrownCheckpoint checkpoint(GetParam(), 1.0f);
  const TransformerSpec spec = SpecOf(checkpoint);
  ASSERT_TRUE(spec.exceeds_float16);
  const auto backend = MakeCpuBackend({.num_threads = 1});
  const std::vector<float> plain = Logits(spec, checkpoint, *backend);
  ASSERT_FALSE(plain.empty());
  EXPECT_EQ(Logits(WithStreamScale(spec, kFloat16StreamScale), checkpoint, *backend), plain);
}

// With the numbers of float16, which hold the stream times the factor and not the stream.
TEST_P(StreamScaleTest, KeepsHiddenStatesWithinFloat16) {
  const GrownCheckpoint checkpoint(GetParam(), 0x1p16f);
  const TransformerSpec spec = SpecOf(checkpoint);
  HalfBackend exact(/*rounds=*/false);
  const std::vector<float> expected = Logits(spec, checkpoint, exact);
  ASSERT_TRUE(AllAreFinite(expected));
  ASSERT_GT(exact.largest_hidden(), kLargestHalf);

  HalfBackend unscaled(/*rounds=*/true);
  EXPECT_FALSE(AllAreFinite(Logits(spec, checkpoint, unscaled)));

  HalfBackend scaled(/*rounds=*/true);
  const std::vector<float> found =
      Logits(WithStreamScale(spec, kFloat16StreamScale), checkpoint, scaled);
  EXPECT_LT(scaled.largest_hidden(), kLargestHalf);
  ExpectNear(found, expected);
}

// The same on a device that computes in float16.
TEST_P(StreamScaleTest, IsWhatADeviceComputesWith) {
  const GrownCheckpoint checkpoint(GetParam(), 0x1p16f);
  const TransformerSpec spec = SpecOf(checkpoint);
  const ModelNeeds needs = {DType::kFloat16, spec.max_head_dim(), spec.max_hidden_size()};
  auto chosen = MakeBackend(TestDevice(), needs, {}, kTestGpuMemory);
  if (!chosen.ok()) GTEST_SKIP() << chosen.status();
  HalfBackend exact(/*rounds=*/false);
  ExpectNear(Logits(spec, checkpoint, *chosen->backend, DType::kFloat16),
             Logits(spec, checkpoint, exact));
}

INSTANTIATE_TEST_SUITE_P(Models, StreamScaleTest,
                         ::testing::Values("t5-3x40", "t5-5x6-gated", "mt5-2x7", "pegasus-3x12"));

TEST(StreamScaleSpecTest, IsOfFloat16Alone) {
  const GrownCheckpoint t5("t5-3x40", 1.0f);
  const TransformerSpec spec = SpecOf(t5);
  EXPECT_EQ(SpecIn(spec, DType::kFloat16).encoder->stream_scale, kFloat16StreamScale);
  EXPECT_EQ(SpecIn(spec, DType::kFloat16).decoder->norm_epsilon,
            spec.decoder->norm_epsilon * kFloat16StreamScale * kFloat16StreamScale);
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    EXPECT_EQ(SpecIn(spec, dtype).encoder->stream_scale, 1.0f);
  }
  const GrownCheckpoint bart("bart-3x24", 1.0f);
  EXPECT_EQ(SpecIn(SpecOf(bart), DType::kFloat16).encoder->stream_scale, 1.0f);
}

}  // namespace
}  // namespace beamline::stream_scale_test
