#include "engine/decoding/choice_decoder.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace beamline::choice_decoder_test {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// The candidates of a row, whose normalizer is 1.
std::vector<GeneratedSequence> Decide(const std::vector<int32_t>& ids,
                                      const std::vector<float>& raw) {
  ChoiceDecoder decoder(7, 3);
  EXPECT_EQ(decoder.Requests().size(), 1u);
  EXPECT_EQ(decoder.Requests()[0].num_candidates, 2);
  const RowResult row = {.ids = ids, .values = raw, .raw_values = raw, .log_normalizer = 1.0f};
  EXPECT_TRUE(decoder.Advance({&row, 1}).empty());
  EXPECT_TRUE(decoder.finished());
  EXPECT_EQ(decoder.num_generated_tokens(), 0);
  return decoder.TakeSequences();
}

void ExpectLogprobs(const std::vector<GeneratedSequence>& sequences, float first, float second) {
  ASSERT_EQ(sequences.size(), 1u);
  ASSERT_EQ(sequences[0].logprobs.size(), 2u);
  EXPECT_EQ(sequences[0].logprobs[0].chosen.id, 7);
  EXPECT_EQ(sequences[0].logprobs[0].chosen.logprob, first);
  EXPECT_EQ(sequences[0].logprobs[1].chosen.id, 3);
  EXPECT_EQ(sequences[0].logprobs[1].chosen.logprob, second);
}

TEST(ChoiceDecoder, TellsEachTokensLogprobInWhateverOrderTheyAreFound) {
  ExpectLogprobs(Decide({3, 7}, {-2.0f, 0.5f}), -0.5f, -3.0f);
  ExpectLogprobs(Decide({7, 3}, {0.5f, -2.0f}), -0.5f, -3.0f);
}

TEST(ChoiceDecoder, ATokenThatCannotComeIsNoneOfTheCandidates) {
  ExpectLogprobs(Decide({3, 5}, {-2.0f, 4.0f}), -kInfinity, -3.0f);
  ExpectLogprobs(Decide({4, 5}, {-2.0f, 4.0f}), -kInfinity, -kInfinity);
}

TEST(ChoiceDecoder, StopsWithoutAResult) {
  ChoiceDecoder decoder(7, 3);
  decoder.Stop(FinishReason::kCancelled);
  EXPECT_TRUE(decoder.finished());
  EXPECT_EQ(decoder.TakeSequences()[0].finish_reason, FinishReason::kCancelled);
}

}  // namespace
}  // namespace beamline::choice_decoder_test
