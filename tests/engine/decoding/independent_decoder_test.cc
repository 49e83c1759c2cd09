#include "engine/decoding/independent_decoder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "tests/engine/decoding/random_options.h"
#include "tests/engine/decoding/toy_loop.h"

namespace beamline::independent_decoder_test {
namespace {

ResolvedDecoding Options(DecodingKind kind, int32_t num_sequences, int32_t max_new_tokens) {
  ResolvedDecoding decoding;
  decoding.kind = kind;
  decoding.num_sequences = num_sequences;
  decoding.max_new_tokens = max_new_tokens;
  decoding.vocab_size = LetterTokenizer().vocab_size();
  decoding.eos_token_ids = decoding.all_eos_token_ids = {0};
  return decoding;
}

TEST(IndependentDecoder, GreedyFollowsTheLikeliestToken) {
  Random random(TestSeed());
  const ToyTokenizer tokenizer = LetterTokenizer();
  for (int round = 0; round < 100; ++round) {
    const ResolvedDecoding decoding = Options(DecodingKind::kGreedy, 1, 15);
    const ToyModel model = RandomModel(random.Seed(), decoding.vocab_size);
    const auto decoder = GroupDecoder::Create(decoding, {5}, tokenizer, false);
    const ToyRun run = RunGroup(*decoder, model, {5});
    TokenIds history = {5};
    while (history.size() < 16) {
      const std::vector<float> logits = model(history);
      const auto best = std::ranges::max_element(logits) - logits.begin();
      history.push_back(static_cast<int32_t>(best));
      if (best == 0) break;
    }
    ASSERT_EQ(run.sequences[0].ids, TokenIds(history.begin() + 1, history.end()));
    ASSERT_EQ(run.sequences[0].score, static_cast<float>(run.sequences[0].cumulative_logprob));
  }
}

TEST(IndependentDecoder, SamplesShareTheFirstRowAndTheirSeedRepeats) {
  const ToyTokenizer tokenizer = LetterTokenizer();
  ResolvedDecoding decoding = Options(DecodingKind::kSampling, 6, 12);
  decoding.seed = 42;
  decoding.temperature = 1.5f;
  const ToyModel model = RandomModel(3, decoding.vocab_size);
  const auto decoder = GroupDecoder::Create(decoding, {5}, tokenizer, true);
  ASSERT_EQ(decoder->Requests().size(), 1);
  const std::vector<SampleRow>& draws = decoder->Requests()[0].samples;
  ASSERT_EQ(draws.size(), 6);
  for (uint32_t i = 0; i < 6; ++i) {
    EXPECT_EQ(draws[i].sequence, i);
    EXPECT_EQ(draws[i].position, 0);
    EXPECT_EQ(draws[i].seed, 42);
    EXPECT_EQ(draws[i].temperature, 1.5f);
  }
  const ToyRun run = RunGroup(*decoder, model, {5});
  std::set<TokenIds> different;
  for (const auto& sequence : run.sequences) different.insert(sequence.ids);
  EXPECT_GE(different.size(), 5);

  const auto again = GroupDecoder::Create(decoding, {5}, tokenizer, true);
  const ToyRun repeated = RunGroup(*again, model, {5});
  for (size_t i = 0; i < 6; ++i) EXPECT_EQ(repeated.sequences[i].ids, run.sequences[i].ids);
}

// As a stream names them by, and whatever their scores: sample i of more samples is the same one.
TEST(IndependentDecoder, SamplesComeInTheOrderOfTheirDraws) {
  const ToyTokenizer tokenizer = LetterTokenizer();
  const ToyModel model = RandomModel(4, LetterTokenizer().vocab_size());
  std::vector<TokenIds> first;
  for (const int32_t num_sequences : {8, 3}) {
    for (const bool streams : {false, true}) {
      const ResolvedDecoding decoding = Options(DecodingKind::kSampling, num_sequences, 12);
      const auto decoder = GroupDecoder::Create(decoding, {5}, tokenizer, streams);
      const ToyRun run = RunGroup(*decoder, model, {5});
      if (first.empty()) {
        for (const auto& sequence : run.sequences) first.push_back(sequence.ids);
        EXPECT_FALSE(std::ranges::is_sorted(run.sequences, std::ranges::greater{},
                                            &GeneratedSequence::cumulative_logprob));
      }
      ASSERT_EQ(run.sequences.size(), static_cast<size_t>(num_sequences));
      for (int32_t i = 0; i < num_sequences; ++i) EXPECT_EQ(run.sequences[i].ids, first[i]);
    }
  }
}

// Ids 2 to 4 in turn: "a", "b", "c" and so on.
std::vector<float> NextLetter(std::span<const int32_t> history) {
  std::vector<float> logits(5, 0.0f);
  logits[history.size() % 3 + 2] = 5.0f;
  return logits;
}

TEST(IndependentDecoder, ARequestsMinimumHoldsBackStopIdsAndTexts) {
  const ToyTokenizer tokenizer({"</s>", "x", "c", "a", "b"}, {0});
  const auto answer = [&](const ResolvedDecoding& decoding) {
    const auto decoder = GroupDecoder::Create(decoding, {1}, tokenizer, true);
    return RunGroup(*decoder, NextLetter, {1}).sequences[0];
  };
  ResolvedDecoding decoding = Options(DecodingKind::kGreedy, 1, 9);
  decoding.vocab_size = 5;
  decoding.stop = {"ab"};
  EXPECT_EQ(answer(decoding).text, "");
  decoding.min_new_tokens = 1;  // the model's own
  EXPECT_EQ(answer(decoding).text, "");
  EXPECT_EQ(answer(decoding).ids, (TokenIds{3, 4}));
  decoding.min_holds_stops = true;
  EXPECT_EQ(answer(decoding).text, "");  // the second token ends it
  decoding.min_new_tokens = 2;
  EXPECT_EQ(answer(decoding).text, "abc");
  EXPECT_EQ(answer(decoding).ids, (TokenIds{3, 4, 2, 3, 4}));
  decoding.min_new_tokens = 5;
  EXPECT_EQ(answer(decoding).text, "abcabc");
  decoding.stop = {"abcab"};  // starts before the minimum is reached, and ends behind it
  EXPECT_EQ(answer(decoding).text, "abc");
  decoding.min_new_tokens = 4;
  EXPECT_EQ(answer(decoding).text, "");

  decoding.stop.clear();
  decoding.stop_token_ids = {4};
  EXPECT_EQ(answer(decoding).ids, (TokenIds{3, 1, 2, 3, 4}));
  EXPECT_EQ(answer(decoding).finish_reason, FinishReason::kStop);
  decoding.min_holds_stops = false;
  EXPECT_EQ(answer(decoding).ids, (TokenIds{3, 4}));
}

TEST(IndependentDecoder, StopKeepsWhatThereIsAndWhatHadEnded) {
  const ToyTokenizer tokenizer = LetterTokenizer();
  ResolvedDecoding decoding = Options(DecodingKind::kSampling, 12, 40);
  decoding.seed = 1;
  // An end token is likely only right after "a".
  const ToyModel model = [](std::span<const int32_t> history) {
    std::vector<float> logits(18, 0.0f);
    logits[0] = history.back() == 2 ? 9.0f : -9.0f;
    logits[2] = 1.0f;
    return logits;
  };
  const auto decoder = GroupDecoder::Create(decoding, {5}, tokenizer, true);
  const ToyRun run = RunGroup(*decoder, model, {5}, {.stop_after_steps = 4});
  int num_ended = 0;
  for (const auto& sequence : run.sequences) {
    if (sequence.finish_reason == FinishReason::kEos) {
      ++num_ended;
    } else {
      EXPECT_EQ(sequence.finish_reason, FinishReason::kDeadline);
      EXPECT_EQ(sequence.ids.size(), 4);
    }
  }
  EXPECT_GT(num_ended, 0);
  EXPECT_LT(num_ended, 12);
}

TEST(IndependentDecoder, StopStringsEndAcrossTokensAndKeepAllIds) {
  const ToyTokenizer tokenizer({"", "x", "st", "op", "y"}, {0});
  const ToyModel model = [](std::span<const int32_t> history) {
    std::vector<float> logits(5, 0.0f);
    logits[history.size() % 4 + 1] = 5.0f;  // after a prompt of one token: st, op, y, x, ...
    return logits;
  };
  for (const bool include_stop : {false, true}) {
    ResolvedDecoding decoding = Options(DecodingKind::kGreedy, 1, 10);
    decoding.vocab_size = 5;
    decoding.stop = {"yxstop"};
    decoding.include_stop = include_stop;
    const auto decoder = GroupDecoder::Create(decoding, {1}, tokenizer, true);
    const ToyRun run = RunGroup(*decoder, model, {1});
    EXPECT_EQ(run.sequences[0].ids, (TokenIds{2, 3, 4, 1, 2, 3}));
    EXPECT_EQ(run.sequences[0].text, include_stop ? "stopyxstop" : "stop");
    EXPECT_EQ(run.sequences[0].finish_reason, FinishReason::kStop);
    EXPECT_EQ(run.first_texts, (std::vector<std::string>{"st", "stop", "stop", "stop", "stop",
                                                         include_stop ? "stopyxstop" : "stop"}));
  }
}

}  // namespace
}  // namespace beamline::independent_decoder_test
