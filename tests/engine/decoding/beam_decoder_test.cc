#include "engine/decoding/beam_decoder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "engine/api/request_limits.h"
#include "tests/engine/decoding/random_options.h"
#include "tests/engine/decoding/toy_loop.h"

namespace beamline::beam_decoder_test {
namespace {

ToyTokenizer PlainTokenizer(int32_t vocab_size) {
  std::vector<std::string> pieces = {""};
  for (int32_t id = 1; id < vocab_size; ++id) pieces.emplace_back(1, static_cast<char>('a' + id));
  return ToyTokenizer(std::move(pieces), {0});
}

ResolvedDecoding BeamOf(int32_t width, int32_t vocab_size, int32_t max_new_tokens) {
  ResolvedDecoding decoding;
  decoding.kind = DecodingKind::kBeam;
  decoding.beam_width = width;
  decoding.vocab_size = vocab_size;
  decoding.max_new_tokens = max_new_tokens;
  decoding.eos_token_ids = decoding.all_eos_token_ids = {0};
  return decoding;
}

// With a real vocabulary, stop strings, stop ids and groups: no backend finds more.
TEST(BeamDecoder, AsksForNoMoreCandidatesThanBackendsFind) {
  const ToyTokenizer tokenizer = PlainTokenizer(20);
  for (const int32_t num_groups : {1, 2, 32}) {
    ResolvedDecoding decoding = BeamOf(64, 50000, 5);
    decoding.num_beam_groups = num_groups;
    for (int32_t id = 1; id <= static_cast<int32_t>(LimitOf("limits.stop_token_ids").size->max);
         ++id) {
      decoding.stop_token_ids.push_back(id);
      decoding.eos_token_ids.push_back(1000 + id);
    }
    for (const bool stops : {false, true}) {
      if (stops) decoding.stop = {"zz"};
      BeamDecoder decoder(decoding, TokenIds{7}, tokenizer, false);
      for (const RowRequest& request : decoder.Requests()) {
        EXPECT_LE(request.num_candidates, kMaxCandidates);
      }
    }
  }
}

struct Scored {
  double score = 0.0;
  TokenIds ids;
};

// Every sequence up to max_new_tokens, best first.
std::vector<Scored> SearchExhaustively(const ToyModel& model, const TokenIds& prompt,
                                       const ResolvedDecoding& decoding) {
  std::vector<Scored> all;
  const std::function<void(TokenIds, double)> extend = [&](TokenIds ids, double sum) {
    TokenIds history = prompt;
    history.insert(history.end(), ids.begin(), ids.end());
    const std::vector<double> logprobs = LogSoftmax(model(history));
    for (int32_t id = 0; id < decoding.vocab_size; ++id) {
      TokenIds longer = ids;
      longer.push_back(id);
      const double total = sum + logprobs[id];
      const auto length = static_cast<int32_t>(longer.size());
      if (id == 0 || length == decoding.max_new_tokens) {
        all.push_back({total / std::pow(length, decoding.length_penalty), longer});
      } else {
        extend(longer, total);
      }
    }
  };
  extend({}, 0.0);
  std::ranges::sort(all, std::ranges::greater{}, &Scored::score);
  return all;
}

TEST(BeamDecoder, IsExhaustiveWhenTheBeamHoldsEveryPrefix) {
  Random random(TestSeed());
  for (int round = 0; round < 40; ++round) {
    // 3^3 = 27 prefixes of three tokens that have not ended.
    ResolvedDecoding decoding = BeamOf(64, 4, 4);
    decoding.num_sequences = 10;
    decoding.length_penalty = random.Float(-1.0f, 2.0f);
    decoding.early_stopping = static_cast<EarlyStopping>(random.Int(0, 2));
    const ToyTokenizer tokenizer = PlainTokenizer(4);
    const ToyModel model = RandomModel(random.Seed(), 4, 9);
    const auto decoder = GroupDecoder::Create(decoding, {1}, tokenizer, false);
    const ToyRun run = RunGroup(*decoder, model, {1});
    const std::vector<Scored> expected = SearchExhaustively(model, {1}, decoding);
    ASSERT_EQ(run.sequences.size(), 10);
    for (size_t i = 0; i < run.sequences.size(); ++i) {
      ASSERT_NEAR(run.sequences[i].score, expected[i].score, 1e-4);
      if (expected[i].score - expected[i + 1].score > 1e-4 &&
          (i == 0 || expected[i - 1].score - expected[i].score > 1e-4)) {
        ASSERT_EQ(run.sequences[i].ids, expected[i].ids);
      }
    }
  }
}

TEST(BeamDecoder, TiesGoToTheLowerBeamThenTheLowerId) {
  const ToyModel flat = [](std::span<const int32_t>) { return std::vector<float>(6, 0.5f); };
  ResolvedDecoding decoding = BeamOf(3, 6, 3);
  decoding.eos_token_ids.clear();
  decoding.num_sequences = 3;
  const ToyTokenizer tokenizer = PlainTokenizer(6);
  const auto decoder = GroupDecoder::Create(decoding, {1}, tokenizer, false);
  const ToyRun run = RunGroup(*decoder, flat, {1});
  EXPECT_EQ(run.sequences[0].ids, (TokenIds{0, 0, 0}));
  EXPECT_EQ(run.sequences[1].ids, (TokenIds{0, 0, 1}));
  EXPECT_EQ(run.sequences[2].ids, (TokenIds{0, 0, 2}));
}

TEST(BeamDecoder, AsksForEnoughCandidatesAndNoMore) {
  ResolvedDecoding decoding = BeamOf(4, 100, 8);
  decoding.stop_token_ids = {7, 0};
  const ToyTokenizer tokenizer = PlainTokenizer(20);
  EXPECT_EQ(BeamDecoder(decoding, TokenIds{1}, tokenizer, false).Requests()[0].num_candidates, 6);
  decoding.vocab_size = 5;
  EXPECT_EQ(BeamDecoder(decoding, TokenIds{1}, tokenizer, false).Requests()[0].num_candidates, 5);
  decoding.vocab_size = 100;
  decoding.output = {.logprobs = 20, .return_logprobs = true};
  EXPECT_EQ(BeamDecoder(decoding, TokenIds{1}, tokenizer, false).Requests()[0].num_candidates, 20);
}

TEST(BeamDecoder, LaterGroupsAskForTheTokensThatEarlierOnesMayTake) {
  ResolvedDecoding decoding = BeamOf(6, 100, 8);
  decoding.num_beam_groups = 3;
  decoding.diversity_penalty = 1.0f;
  const ToyTokenizer tokenizer = PlainTokenizer(20);
  BeamDecoder decoder(decoding, TokenIds{1}, tokenizer, false);
  // Two beams and one end token; four tokens of the two groups before the last.
  ASSERT_EQ(decoder.Requests().size(), 1u);
  EXPECT_EQ(decoder.Requests()[0].num_candidates, 2 + 1 + 4);
  const TokenIds ids = {5, 6, 7, 8, 9, 10, 11};
  const std::vector<float> values = {-1, -2, -3, -4, -5, -6, -7};
  const auto next = decoder.Advance(std::vector<RowResult>{{ids, values, values}});
  // The second group's 5 and 6 cost 2 and 3 by then, its 7 no more than 3: rank 5, 6, 7.
  TokenIds tokens;
  for (const Continuation& row : next) {
    EXPECT_EQ(row.parent, 0);
    tokens.push_back(row.token);
  }
  EXPECT_EQ(tokens, (TokenIds{5, 6, 5, 6, 5, 7}));
  std::vector<int32_t> counts;
  for (const RowRequest& request : decoder.Requests()) counts.push_back(request.num_candidates);
  EXPECT_EQ(counts, (std::vector<int32_t>{3, 3, 5, 5, 7, 7}));
}

TEST(BeamDecoder, WithoutAPenaltyEveryGroupIsThePlainSearchOfItsWidth) {
  Random random(TestSeed());
  const ToyTokenizer tokenizer = PlainTokenizer(9);
  for (int round = 0; round < 100; ++round) {
    ResolvedDecoding plain = BeamOf(3, 9, 12);
    plain.num_sequences = 3;
    // The plain search judges early ends by the best live beam, the groups by the best candidate:
    // with no end token they agree.
    plain.eos_token_ids.clear();
    ResolvedDecoding grouped = plain;
    grouped.beam_width = grouped.num_sequences = 6;
    grouped.num_beam_groups = 2;
    const ToyModel model = RandomModel(random.Seed(), 9);
    const auto run = [&](const ResolvedDecoding& decoding) {
      const auto decoder = GroupDecoder::Create(decoding, {1}, tokenizer, round % 2 == 0);
      return RunGroup(*decoder, model, {1}).sequences;
    };
    const auto expected = run(plain);
    const auto twice = run(grouped);
    ASSERT_EQ(twice.size(), 6u);
    for (size_t i = 0; i < 6; ++i) {
      ASSERT_EQ(twice[i].ids, expected[i / 2].ids);
      ASSERT_EQ(twice[i].score, expected[i / 2].score);
    }
  }
}

TEST(BeamDecoder, AVocabularySmallerThanTheBeamGivesWhatThereIs) {
  ResolvedDecoding decoding = BeamOf(8, 3, 3);
  decoding.num_sequences = 8;
  const ToyTokenizer tokenizer = PlainTokenizer(3);
  const ToyModel model = RandomModel(5, 3);
  const auto decoder = GroupDecoder::Create(decoding, {1}, tokenizer, true);
  const ToyRun run = RunGroup(*decoder, model, {1});
  const std::vector<Scored> expected = SearchExhaustively(model, {1}, decoding);
  ASSERT_EQ(run.sequences.size(), 8);
  EXPECT_EQ(run.sequences[0].ids, expected[0].ids);
  EXPECT_NEAR(run.sequences[7].score, expected[7].score, 1e-4);
}

TEST(BeamDecoder, StopReturnsTheBestLiveBeamsWithTheReason) {
  ResolvedDecoding decoding = BeamOf(3, 9, 50);
  decoding.eos_token_ids.clear();
  decoding.num_sequences = 2;
  const ToyTokenizer tokenizer = PlainTokenizer(9);
  const ToyModel model = RandomModel(11, 9);
  const auto decoder = GroupDecoder::Create(decoding, {1}, tokenizer, true);
  const ToyRun run = RunGroup(*decoder, model, {1}, {.stop_after_steps = 4});
  decoding.max_new_tokens = 4;
  const auto shorter = GroupDecoder::Create(decoding, {1}, tokenizer, true);
  const ToyRun expected = RunGroup(*shorter, model, {1});
  ASSERT_EQ(run.sequences.size(), 2);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(run.sequences[i].finish_reason, FinishReason::kDeadline);
    EXPECT_EQ(run.sequences[i].ids, expected.sequences[i].ids);
    EXPECT_FLOAT_EQ(run.sequences[i].score, expected.sequences[i].score);
  }
}

TEST(BeamDecoder, StopBeforeTheFirstStepReturnsAnEmptyAnswer) {
  const ToyTokenizer tokenizer = PlainTokenizer(9);
  const auto decoder = GroupDecoder::Create(BeamOf(3, 9, 5), {1}, tokenizer, true);
  decoder->Stop(FinishReason::kCancelled);
  EXPECT_TRUE(decoder->finished());
  const auto sequences = decoder->TakeSequences();
  ASSERT_EQ(sequences.size(), 1);
  EXPECT_TRUE(sequences[0].ids.empty());
  EXPECT_EQ(sequences[0].score, 0.0f);
  EXPECT_EQ(sequences[0].finish_reason, FinishReason::kCancelled);
}

TEST(BeamDecoder, TheSettledPrefixIsStreamedBeforeTheEnd) {
  // One token is likely everywhere, less so the longer the text: the live beams differ in their
  // last tokens only.
  const ToyModel model = [](std::span<const int32_t> history) {
    std::vector<float> logits(9, 0.0f);
    logits[1 + history.size() % 8] = 9.0f - 0.2f * static_cast<float>(history.size());
    logits[0] = -20.0f;
    return logits;
  };
  const ToyTokenizer tokenizer = PlainTokenizer(9);
  const auto decoder = GroupDecoder::Create(BeamOf(4, 9, 30), {1}, tokenizer, true);
  const ToyRun run = RunGroup(*decoder, model, {1});
  ASSERT_EQ(run.first_texts.size(), 30);
  EXPECT_GE(run.first_texts[20].size(), 10);
}

}  // namespace
}  // namespace beamline::beam_decoder_test
