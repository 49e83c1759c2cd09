#include "engine/decoding/prompt_lookup_decoder.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/engine/decoding/random_options.h"
#include "tests/engine/decoding/toy_loop.h"

namespace beamline::prompt_lookup_decoder_test {
namespace {

constexpr int32_t kMaxRows = 64;

void ExpectSameLogprobs(const std::vector<PositionLogprobs>& left,
                        const std::vector<PositionLogprobs>& right) {
  ASSERT_EQ(left.size(), right.size());
  for (size_t i = 0; i < left.size(); ++i) {
    EXPECT_EQ(left[i].chosen.id, right[i].chosen.id);
    EXPECT_EQ(left[i].chosen.logprob, right[i].chosen.logprob);
    ASSERT_EQ(left[i].top.size(), right[i].top.size());
    for (size_t k = 0; k < left[i].top.size(); ++k) {
      EXPECT_EQ(left[i].top[k].id, right[i].top[k].id);
      EXPECT_EQ(left[i].top[k].logprob, right[i].top[k].logprob);
    }
  }
}

TEST(PromptLookupDecoder, IsPlainGreedyDecodingBitForBit) {
  Random random(TestSeed());
  const ToyTokenizer tokenizer = LetterTokenizer();
  uint64_t proposed = 0, accepted = 0;
  for (int round = 0; round < 3000; ++round) {
    ResolvedDecoding decoding = RandomDecoding(random);
    decoding.kind = DecodingKind::kGreedy;
    decoding.num_sequences = 1;
    decoding.max_new_tokens = random.Int(decoding.min_new_tokens + 1, 60);
    if (random.Chance(0.5)) decoding.eos_token_ids.clear();
    // Models of short memory repeat themselves.
    const ToyModel model = RandomModel(random.Seed(), decoding.vocab_size, random.Int(1, 3));
    const TokenIds prompt = random.Ids(random.Int(1, 30), decoding.vocab_size);
    const bool streams = random.Chance(0.5);
    const auto plain = GroupDecoder::Create(decoding, prompt, tokenizer, streams);
    const ToyRun expected = RunGroup(*plain, model, prompt);
    Speculation speculation(random.Int(1, 16), kMaxRows);
    const auto decoder = GroupDecoder::Create(decoding, prompt, tokenizer, streams, &speculation);
    const ToyRun run = RunGroup(*decoder, model, prompt);
    SCOPED_TRACE("round " + std::to_string(round));

    const GeneratedSequence& sequence = run.sequences[0];
    ASSERT_EQ(sequence.ids, expected.sequences[0].ids);
    EXPECT_EQ(sequence.text, expected.sequences[0].text);
    EXPECT_EQ(sequence.finish_reason, expected.sequences[0].finish_reason);
    EXPECT_EQ(sequence.cumulative_logprob, expected.sequences[0].cumulative_logprob);
    EXPECT_EQ(sequence.score, expected.sequences[0].score);
    ExpectSameLogprobs(sequence.logprobs, expected.sequences[0].logprobs);
    EXPECT_EQ(decoder->num_generated_tokens(), plain->num_generated_tokens());
    EXPECT_LE(run.num_steps, expected.num_steps);
    EXPECT_LE(run.most_tokens, prompt.size() + decoding.max_new_tokens - 1);
    if (streams && expected.streamed.contains(0)) {
      EXPECT_EQ(run.streamed.at(0).text, expected.streamed.at(0).text);
      EXPECT_EQ(run.streamed.at(0).ids, expected.streamed.at(0).ids);
      ExpectSameLogprobs(run.streamed.at(0).logprobs, expected.streamed.at(0).logprobs);
    }
    proposed += speculation.proposed();
    accepted += speculation.accepted();
    ASSERT_FALSE(testing::Test::HasFailure());
  }
  // There was something to be exact about.
  EXPECT_GT(accepted, 5000u);
  EXPECT_GT(proposed - accepted, 1000u);
}

ResolvedDecoding Greedy(int32_t vocab_size, int32_t max_new_tokens) {
  ResolvedDecoding decoding;
  decoding.vocab_size = vocab_size;
  decoding.max_new_tokens = max_new_tokens;
  return decoding;
}

ToyTokenizer Silent(int32_t vocab_size) {
  return ToyTokenizer(std::vector<std::string>(vocab_size), {});
}

TEST(PromptLookupDecoder, ALoopTakesFewSteps) {
  const ToyModel loop = [](std::span<const int32_t> history) {
    std::vector<float> logits(7, 0.0f);
    logits[(history.back() + 1) % 5] = 1.0f;
    return logits;
  };
  const ToyTokenizer tokenizer = Silent(7);
  Speculation speculation(8, kMaxRows);
  const auto decoder = GroupDecoder::Create(Greedy(7, 500), {0}, tokenizer, false, &speculation);
  const ToyRun run = RunGroup(*decoder, loop, {0});
  EXPECT_EQ(run.sequences[0].ids.size(), 500u);
  EXPECT_LT(run.num_steps, 500 / 9 + 12);
  EXPECT_EQ(speculation.proposed(), speculation.accepted());
}

TEST(PromptLookupDecoder, GuessesThatFailBecomeRare) {
  // Every token has occurred before, and says nothing of the next.
  const ToyModel noise = RandomModel(TestSeed(), 40, 12);
  const ToyTokenizer tokenizer = Silent(40);
  Speculation speculation(16, kMaxRows);
  const auto decoder = GroupDecoder::Create(Greedy(40, 3000), {0}, tokenizer, false, &speculation);
  const ToyRun run = RunGroup(*decoder, noise, {0});
  EXPECT_EQ(run.sequences[0].ids.size(), 3000u);
  EXPECT_LT(speculation.proposed(), 600u);
  EXPECT_GT(speculation.proposed(), 20u);  // it tries again
}

TEST(PromptLookupDecoder, SequencesShareTheRowsOfAStep) {
  Speculation speculation(8, kMaxRows);
  EXPECT_EQ(speculation.share(), 8);
  std::vector<std::unique_ptr<Speculation::Participant>> others;
  for (int i = 0; i < 16; ++i) {
    others.push_back(std::make_unique<Speculation::Participant>(speculation));
  }
  EXPECT_EQ(speculation.share(), 3);
  for (int i = 0; i < 48; ++i) {
    others.push_back(std::make_unique<Speculation::Participant>(speculation));
  }
  EXPECT_EQ(speculation.share(), 0);
  others.clear();
  EXPECT_EQ(speculation.share(), 8);
}

TEST(PromptLookup, TakesTheLatestOfTheLongestMatches) {
  const PromptLookup lookup(TokenIds{1, 2, 3, 4, 9, 2, 3, 5, 7, 3, 6, 1, 2, 3});
  const PromptLookup::Match match = lookup.Find();
  EXPECT_EQ(match.ngram, 3);
  EXPECT_EQ(match.follower, 3);
  EXPECT_EQ(lookup.Copy(match.follower, 4), (TokenIds{4, 9, 2, 3}));
  EXPECT_EQ(PromptLookup(TokenIds{2, 3, 4, 2, 3, 5, 8, 3}).Find().ngram, 1);
  EXPECT_EQ(PromptLookup(TokenIds{2, 3, 4, 2, 3, 5, 8, 3}).Find().follower, 5);
  EXPECT_EQ(PromptLookup(TokenIds{1, 2, 3}).Find().ngram, 0);
}

TEST(PromptLookup, GuessesALoopAsALoop) {
  const PromptLookup lookup(TokenIds{1, 2, 1, 2});
  EXPECT_EQ(lookup.Find().ngram, 2);
  EXPECT_EQ(lookup.Copy(lookup.Find().follower, 5), (TokenIds{1, 2, 1, 2, 1}));
}

}  // namespace
}  // namespace beamline::prompt_lookup_decoder_test
