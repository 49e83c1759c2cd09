#include "engine/decoding/score_decoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/engine/decoding/toy_loop.h"

namespace beamline::score_decoder_test {
namespace {

constexpr int32_t kVocab = 50;

double Expected(const ToyModel& model, TokenIds history, const TokenIds& continuation) {
  double sum = 0.0;
  for (const int32_t token : continuation) {
    sum += LogSoftmax(model(history))[token];
    history.push_back(token);
  }
  return sum;
}

struct ScoreRun {
  std::vector<GeneratedSequence> sequences;
  int32_t num_steps = 0;
  int32_t num_tokens = 0;  // whose logits were computed
};

// What the step loop does with a group's rows: their tokens alone, without a cache.
ScoreRun RunScore(ScoreDecoder& decoder, const ToyModel& model, const TokenIds& prompt,
                  const ScoreLimits& limits) {
  ScoreRun run;
  std::vector<TokenIds> rows = {prompt};
  rows[0].insert(rows[0].end(), decoder.first_proposals().begin(), decoder.first_proposals().end());
  std::vector<int32_t> num_logits = {1 + static_cast<int32_t>(decoder.first_proposals().size())};
  while (!decoder.finished()) {
    const std::span<const RowRequest> requests = decoder.Requests();
    EXPECT_LE(requests.size(), static_cast<size_t>(decoder.max_rows()) * limits.tokens_per_row);
    EXPECT_LE(rows.size(), static_cast<size_t>(limits.max_rows));
    std::vector<int32_t> ids;
    std::vector<float> raw_values, log_normalizers;
    for (size_t row = 0; row < rows.size(); ++row) {
      for (int32_t back = num_logits[row] - 1; back >= 0; --back) {
        EXPECT_EQ(requests[ids.size()].num_candidates, 1);
        const std::vector<float> logits =
            model(std::span(rows[row]).first(rows[row].size() - back));
        ids.push_back(requests[ids.size()].edits->forced_id);
        raw_values.push_back(logits[ids.back()]);
        log_normalizers.push_back(static_cast<float>(logits[0] - LogSoftmax(logits)[0]));
      }
    }
    EXPECT_EQ(ids.size(), requests.size());
    std::vector<RowResult> results(ids.size());
    for (size_t i = 0; i < ids.size(); ++i) {
      results[i].ids = {&ids[i], 1};
      results[i].values = {&raw_values[i], 1};
      results[i].raw_values = {&raw_values[i], 1};
      results[i].log_normalizer = log_normalizers[i];
    }
    std::vector<TokenIds> next;
    num_logits.clear();
    for (const Continuation& row : decoder.Advance(results)) {
      TokenIds tokens = rows[row.parent];
      tokens.resize(tokens.size() - row.num_dropped);
      EXPECT_GE(tokens.size(), prompt.size() - 1);
      tokens.push_back(row.token);
      tokens.insert(tokens.end(), row.proposals.begin(), row.proposals.end());
      next.push_back(std::move(tokens));
      num_logits.push_back(1 + static_cast<int32_t>(row.proposals.size()));
    }
    rows = std::move(next);
    ++run.num_steps;
    run.num_tokens += static_cast<int32_t>(ids.size());
  }
  run.sequences = decoder.TakeSequences();
  return run;
}

TokenIds RandomIds(uint64_t& state, int32_t count) {
  TokenIds ids(count);
  for (int32_t& id : ids) {
    state = state * 6364136223846793005 + 1442695040888963407;
    id = static_cast<int32_t>((state >> 33) % kVocab);
  }
  return ids;
}

TEST(ScoreDecoder, ScoresAreThoseOfTheModelUnderAnyLimits) {
  uint64_t state = 1;
  const ToyModel model = RandomModel(9, kVocab, /*order=*/4);
  for (const ScoreLimits limits :
       {ScoreLimits{64, 64}, {1, 1}, {1, 7}, {3, 8}, {8, 8}, {2, 64}, {8, 80, 16}}) {
    for (const int32_t prompt_tokens : {1, 5}) {
      const TokenIds prompt = RandomIds(state, prompt_tokens);
      std::vector<TokenIds> continuations;
      int32_t num_tokens = 0;
      for (const int32_t count : {1, 30, 2, 1, 1, 9, 100, 3, 8, 7, 64, 65, 1}) {
        continuations.push_back(RandomIds(state, count));
        num_tokens += count;
      }
      ScoreDecoder decoder(prompt.back(), continuations, limits);
      const ScoreRun run = RunScore(decoder, model, prompt, limits);
      EXPECT_EQ(run.num_tokens, num_tokens);  // nothing is computed twice
      ASSERT_EQ(run.sequences.size(), continuations.size());
      for (size_t i = 0; i < continuations.size(); ++i) {
        const GeneratedSequence& score = run.sequences[i];
        EXPECT_EQ(score.ids, continuations[i]);
        ASSERT_EQ(score.logprobs.size(), continuations[i].size());
        EXPECT_EQ(score.logprobs.back().chosen.id, continuations[i].back());
        EXPECT_NEAR(score.cumulative_logprob, Expected(model, prompt, continuations[i]), 1e-3);
      }
    }
  }
}

TEST(ScoreDecoder, FillsItsSteps) {
  uint64_t state = 5;
  std::vector<TokenIds> continuations;
  for (int i = 0; i < 100; ++i) continuations.push_back(RandomIds(state, 4));
  const ScoreLimits limits = {.max_rows = 64, .max_step_tokens = 64};
  ScoreDecoder decoder(3, continuations, limits);
  EXPECT_EQ(decoder.max_rows(), 64);
  // The first step has the group's one row; 396 tokens are left for the others.
  EXPECT_EQ(RunScore(decoder, RandomModel(2, kVocab), {3}, limits).num_steps, 1 + 7);
}

TEST(ScoreDecoder, OneContinuationTakesOneStep) {
  const ScoreLimits limits;
  ScoreDecoder decoder(3, {{1, 2, 3}}, limits);
  EXPECT_EQ(decoder.max_rows(), 3);  // no larger share of a step than it can use
  EXPECT_EQ(ScoreDecoder(3, {{1, 2, 3}}, {.tokens_per_row = 2}).max_rows(), 2);
  EXPECT_THAT(decoder.first_proposals(), testing::ElementsAre(1, 2));
  EXPECT_EQ(RunScore(decoder, RandomModel(2, kVocab), {3}, limits).num_steps, 1);
  EXPECT_EQ(decoder.num_generated_tokens(), 0);
}

TEST(ScoreDecoder, StopEndsIt) {
  ScoreDecoder decoder(3, {{1, 2}, {4}}, {.max_rows = 1, .max_step_tokens = 1});
  decoder.Stop(FinishReason::kCancelled);
  EXPECT_TRUE(decoder.finished());
  EXPECT_EQ(decoder.TakeSequences()[1].finish_reason, FinishReason::kCancelled);
}

}  // namespace
}  // namespace beamline::score_decoder_test
