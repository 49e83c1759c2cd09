#include "engine/loading/make_limits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/transformer/transformer.h"

namespace beamline::make_limits_test {
namespace {

using ::testing::HasSubstr;

constexpr int32_t kPositions = 100;  // seven blocks
constexpr int64_t kPlenty = int64_t{1} << 40;

StackSpec Stack() {
  StackSpec stack;
  stack.num_layers = 2;
  stack.num_kv_heads = 3;
  stack.head_dim = 5;
  stack.max_positions = kPositions;
  return stack;
}

ModelDescription Generator() {
  ModelDescription description;
  description.spec.decoder = Stack();
  description.spec.vocab_size = 1000;
  return description;
}

ModelDescription Translator() {
  ModelDescription description = Generator();
  description.spec.encoder = Stack();
  return description;
}

StepLimits Limits(const ModelOptions& options, const ModelDescription& description,
                  int64_t default_cache_bytes = kPlenty) {
  return MakeStepLimits(options, description, kPositions, DType::kFloat32,
                        {.usual = default_cache_bytes, .most = default_cache_bytes});
}

int64_t BytesOf(int64_t blocks) {
  return blocks * Transformer::BlockBytes(Generator().spec, DType::kFloat32, 16);
}

TEST(MakeStepLimitsTest, OptionsHoldWhereTheModelNeedsNoMore) {
  const StepLimits limits =
      Limits({.max_batch_tokens = 128, .max_sequences = 70}, Generator(), kPlenty);
  EXPECT_EQ(limits.max_batch_tokens, 128);
  EXPECT_EQ(limits.max_sequences, 70);
  EXPECT_EQ(limits.max_logits_rows, 128);
  EXPECT_EQ(limits.head_rows(), 70);
  EXPECT_EQ(limits.max_decode_rows(), 70);
  EXPECT_EQ(limits.max_verified_tokens(), 70);
  EXPECT_EQ(limits.block_size, 16);
}

TEST(MakeStepLimitsTest, AStepOfADecoderHoldsWhatTheOptionSays) {
  const ModelOptions options = {.max_batch_tokens = 16, .max_sequences = 2};
  EXPECT_EQ(Limits(options, Generator()).max_batch_tokens, 16);
  EXPECT_TRUE(LimitNotes(options, Limits(options, Generator())).empty());
}

TEST(MakeStepLimitsTest, AStepHoldsATokenOfEverySequence) {
  const ModelOptions options = {.max_batch_tokens = 16, .max_sequences = 300};
  const StepLimits limits = Limits(options, Generator());
  EXPECT_EQ(limits.max_batch_tokens, 16);
  EXPECT_EQ(limits.max_sequences, 16);
  ASSERT_EQ(LimitNotes(options, limits).size(), 1u);
  EXPECT_THAT(LimitNotes(options, limits)[0], HasSubstr("max_sequences (300)"));
}

// An encoder that looks both ways needs its input whole.
TEST(MakeStepLimitsTest, AStepHoldsTheLongestInputOfAnEncoder) {
  const ModelOptions options = {.max_batch_tokens = 16, .max_sequences = 2};
  const StepLimits limits = Limits(options, Translator());
  EXPECT_EQ(limits.max_batch_tokens, kPositions);
  ASSERT_EQ(LimitNotes(options, limits).size(), 1u);
  EXPECT_THAT(LimitNotes(options, limits)[0], HasSubstr("more than max_batch_tokens (16)"));
  EXPECT_TRUE(LimitNotes({}, Limits({}, Translator())).empty());
}

TEST(MakeStepLimitsTest, LogitsRowsAreLimitedByThemselves) {
  EXPECT_EQ(Limits({.max_batch_tokens = 1 << 20}, Generator()).max_logits_rows, 4096);
  EXPECT_EQ(
      Limits({.max_batch_tokens = 1 << 20, .max_sequences = 5000}, Generator()).max_logits_rows,
      5000);
}

TEST(MakeStepLimitsTest, TheLongestCachedSequenceIsWhatTheBytesHold) {
  const auto longest = [](const ModelOptions& options, int64_t most) {
    return LongestCached(options, Generator(), DType::kFloat32, {.usual = 0, .most = most});
  };
  // A sequence has a block more than its tokens fill.
  EXPECT_EQ(longest({}, BytesOf(8)), kPositions);
  EXPECT_EQ(longest({}, BytesOf(8) - 1), 6 * 16);
  EXPECT_EQ(longest({}, BytesOf(2)), 16);
  EXPECT_EQ(longest({}, BytesOf(1)), 0);
  EXPECT_EQ(longest({.cache_bytes = BytesOf(4)}, kPlenty), 3 * 16);
  ModelDescription search = Generator();
  search.generation.num_beams = 3;
  EXPECT_EQ(LongestCached({}, search, DType::kFloat32, {.usual = 0, .most = BytesOf(3 * 5)}),
            4 * 16);
  ModelDescription encoder;
  encoder.spec.encoder = Stack();
  EXPECT_EQ(LongestCached({}, encoder, DType::kFloat32, {.usual = 0, .most = kPlenty}), 0);
}

ModelDescription CausalEncoder() {
  ModelDescription description;
  description.spec.encoder = Stack();
  description.spec.encoder->causal = true;
  description.spec.vocab_size = 1000;
  return description;
}

// Of a causal encoder no step has more than the setting says.
TEST(MakeStepLimitsTest, InputsLongerThanAStepAreComputedInPieces) {
  const StepLimits limits = Limits({.max_batch_tokens = 16, .max_sequences = 70}, CausalEncoder());
  EXPECT_EQ(limits.max_batch_tokens, 16);
  EXPECT_EQ(limits.max_input_tokens, kPositions);
  EXPECT_EQ(limits.num_input_blocks(), 7);
  for (const int32_t enough : {kPositions, kPositions + 1}) {
    const StepLimits whole = Limits({.max_batch_tokens = enough}, CausalEncoder());
    EXPECT_EQ(whole.max_batch_tokens, enough);
    EXPECT_EQ(whole.max_input_tokens, 0);
    EXPECT_EQ(whole.num_input_blocks(), 0);
  }
}

TEST(MakeStepLimitsTest, OtherEncodersHaveTheirLongestInputInAStep) {
  ModelDescription description = CausalEncoder();
  const auto expect_whole = [&](const ModelOptions& options) {
    EXPECT_FALSE(ComputesInPieces(description.spec, options));
    EXPECT_EQ(Limits(options, description).max_batch_tokens, kPositions);
    EXPECT_EQ(Limits(options, description).max_input_tokens, 0);
  };
  const ModelOptions options = {.max_batch_tokens = 16, .max_sequences = 2};
  EXPECT_TRUE(ComputesInPieces(description.spec, options));
  ModelOptions ranks = options;
  ranks.tensor_parallel = 2;
  expect_whole(ranks);
  ModelOptions stages = options;
  stages.pipeline_parallel = 2;
  expect_whole(stages);
  description.spec.encoder->causal = false;
  expect_whole(options);
  description = CausalEncoder();
  description.spec.encoder->num_layers = 0;
  expect_whole(options);
  description = CausalEncoder();
  description.spec.encoder->convolution.kernel_size = 3;
  expect_whole(options);
  description = CausalEncoder();
  description.spec.encoder->disentangled.table = "relative";
  expect_whole(options);
  description = Translator();
  description.spec.encoder->causal = true;
  EXPECT_FALSE(ComputesInPieces(description.spec, options));
}

TEST(MakeStepLimitsTest, TheModelsOwnDecodingFits) {
  ModelDescription description = Translator();
  description.generation.num_beams = 6;
  const StepLimits limits = Limits({.max_sequences = 2, .cache_bytes = 1}, description);
  EXPECT_EQ(limits.max_sequences, 6);
  // Memory, and for each beam as much and a block for what beams write apart.
  EXPECT_EQ(limits.num_blocks, 7 + 6 * (7 + 1));
}

TEST(MakeStepLimitsTest, FewSequencesMayStillVerifyManyTokens) {
  const StepLimits limits = Limits({.max_batch_tokens = 100, .max_sequences = 1}, Generator());
  EXPECT_EQ(limits.max_logits_rows, limits.max_batch_tokens);
  EXPECT_EQ(limits.head_rows(), 64);
  EXPECT_EQ(limits.max_decode_rows(), 1);
  EXPECT_EQ(limits.max_verified_tokens(), 64);
}

TEST(MakeStepLimitsTest, CandidatesAreOfTheVocabulary) {
  ModelDescription description = Generator();
  EXPECT_EQ(Limits({}, description).max_candidates, 2 * 64 + 8);
  description.spec.vocab_size = 50;
  EXPECT_EQ(Limits({}, description).max_candidates, 50);
}

TEST(MakeStepLimitsTest, TheCacheHasItsBytesOrRoomForAllSequences) {
  EXPECT_EQ(Limits({.cache_bytes = BytesOf(77) + 1}, Generator()).num_blocks, 77);
  EXPECT_EQ(Limits({.max_sequences = 10}, Generator()).num_blocks, 10 * (7 + 1));
  EXPECT_EQ(Limits({.max_sequences = 10}, Translator()).num_blocks, 10 * (7 + 7 + 1));
  EXPECT_EQ(Limits({.max_sequences = 10}, Generator(), BytesOf(20)).num_blocks, 20);
  EXPECT_EQ(Limits({.max_sequences = 10}, Generator(), 0).num_blocks, 7 + 1);
  EXPECT_EQ(Limits({.max_sequences = 10}, Generator(), 0).watermark_blocks(), 0);
  EXPECT_EQ(Limits({.cache_bytes = BytesOf(77)}, Generator()).watermark_blocks(), 2);
}

TEST(MakeStepLimitsTest, WithoutADecoderThereIsNoCache) {
  ModelDescription description;
  description.spec.encoder = Stack();
  EXPECT_EQ(Limits({.cache_bytes = 1000}, description).num_blocks, 0);
}

}  // namespace
}  // namespace beamline::make_limits_test
