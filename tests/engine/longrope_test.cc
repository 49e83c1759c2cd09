// Sequences around the length from which longrope rotates all of their positions by other angles:
// what was computed by then is computed again, also where requests share or run beside each other.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/engine/random_model.h"
#include "tests/sanitized.h"

namespace beamline::longrope_test {
namespace {

constexpr int32_t kOriginal = 783;  // tokens with the angles of short sequences
constexpr int32_t kVocabulary = 71;
constexpr int32_t kNewTokens = 16;

std::vector<float> Logprobs(const std::vector<PositionLogprobs>& positions) {
  std::vector<float> logprobs;
  for (const PositionLogprobs& position : positions) logprobs.push_back(position.chosen.logprob);
  return logprobs;
}

void ExpectSameBits(const GenerateResult& result, const GenerateResult& expected) {
  ASSERT_EQ(result.sequences.size(), expected.sequences.size());
  for (size_t i = 0; i < result.sequences.size(); ++i) {
    EXPECT_EQ(result.sequences[i].ids, expected.sequences[i].ids);
    EXPECT_EQ(result.sequences[i].score, expected.sequences[i].score);
    EXPECT_EQ(Logprobs(result.sequences[i].logprobs), Logprobs(expected.sequences[i].logprobs));
  }
  EXPECT_EQ(Logprobs(result.prompt_logprobs), Logprobs(expected.prompt_logprobs));
}

class LongRopeTest : public ::testing::Test {
 protected:
  std::unique_ptr<Engine> ServeWith(int32_t max_batch_tokens, int32_t speculative_tokens = 0,
                                    bool prefix_cache = false, int64_t cache_bytes = 0) const {
    ModelOptions options = model_.Options("model");
    options.max_batch_tokens = max_batch_tokens;
    options.max_sequences = std::min(max_batch_tokens, 32);
    options.max_queued_tokens = 1 << 20;
    options.speculative_tokens = speculative_tokens;
    options.prefix_cache = prefix_cache;
    options.cache_bytes = cache_bytes;
    auto engine = Serve({options});
    EXPECT_TRUE(engine.ok()) << engine.status();
    return engine.ok() ? *std::move(engine) : nullptr;
  }

  TokenIds Ids(int32_t count) {
    TokenIds ids;
    std::uniform_int_distribution<int32_t> id(4, kVocabulary - 2);
    for (int32_t i = 0; i < count; ++i) ids.push_back(id(random_));
    return ids;
  }

  static GenerateRequest Greedy(TokenIds prompt) {
    GenerateRequest request;
    request.model = "model";
    request.prompt = std::move(prompt);
    request.decoding = GreedyOptions();
    request.limits.max_new_tokens = kNewTokens;
    request.limits.ignore_eos = true;
    request.output.return_logprobs = true;
    return request;
  }

  // Of every kind of decoding, with prompts that end before, at and behind the length. Some share
  // most of their prompt with another one of the other side.
  std::vector<GenerateRequest> Requests() {
    std::vector<GenerateRequest> requests;
    const TokenIds shared = Ids(kOriginal + 8);
    const std::vector<int32_t> steps = kSanitized ? std::vector<int32_t>{-3} : kDistances;
    for (const int32_t distance : steps) {
      const int32_t length = kOriginal + distance;
      requests.push_back(Greedy(Ids(length)));
      requests.push_back(Greedy({shared.begin(), shared.begin() + length}));
      requests.push_back(Greedy(Ids(length)));
      requests.back().output.prompt_logprobs = 1;
      requests.push_back(Greedy(Ids(length)));
      requests.back().decoding = BeamOptions{.width = 3, .num_sequences = 2};
      requests.push_back(Greedy(Ids(length)));
      requests.back().decoding = SamplingOptions{.seed = 7, .num_sequences = 3};
      // Repeats itself: guesses are often right.
      TokenIds periodic(static_cast<size_t>(length));
      for (size_t i = 0; i < periodic.size(); ++i) periodic[i] = 4 + static_cast<int32_t>(i % 5);
      requests.push_back(Greedy(std::move(periodic)));
    }
    return requests;
  }

  static std::vector<GenerateResult> AnswersOf(const std::vector<GenerateRequest>& requests,
                                               Engine& engine) {
    std::vector<std::shared_ptr<RecordingSink>> sinks;
    for (const GenerateRequest& request : requests) {
      sinks.push_back(std::make_shared<RecordingSink>());
      const auto handle = engine.Generate(request, sinks.back());
      if (!handle.ok()) sinks.back()->OnFinish(handle.status());
    }
    std::vector<GenerateResult> answers;
    for (const auto& sink : sinks) {
      auto answer = sink->Wait();
      EXPECT_TRUE(answer.ok()) << answer.status();
      answers.push_back(answer.ok() ? *std::move(answer) : GenerateResult());
    }
    return answers;
  }

  const std::vector<int32_t> kDistances = {-12, -5, -1, 0, 1, 8};
  RandomStack model_{"phi3-3x8-longrope", kVocabulary, /*with_template=*/false, /*set=*/"long"};
  std::mt19937 random_{20261128};
};

// A whole forward pass over what a sequence has come to is the reference of its next token.
TEST_F(LongRopeTest, EveryTokenIsThatOfAPromptWithAllBeforeIt) {
  const auto engine = ServeWith(8192);
  ASSERT_NE(engine, nullptr);
  const TokenIds prompt = Ids(kOriginal - 4);
  const auto answer = engine->GenerateAndWait(Greedy(prompt));
  ASSERT_TRUE(answer.ok()) << answer.status();
  TokenIds so_far = prompt;
  for (int32_t i = 0; i < (kSanitized ? 6 : kNewTokens); ++i) {
    const auto next = engine->GenerateAndWait(Greedy(so_far));
    ASSERT_TRUE(next.ok()) << next.status();
    const GeneratedSequence& whole = answer->sequences[0];
    EXPECT_EQ(next->sequences[0].ids[0], whole.ids[static_cast<size_t>(i)]) << i;
    EXPECT_EQ(next->sequences[0].logprobs[0].chosen.logprob,
              whole.logprobs[static_cast<size_t>(i)].chosen.logprob)
        << i;
    so_far.push_back(whole.ids[static_cast<size_t>(i)]);
  }
}

TEST_F(LongRopeTest, AnswersAreThoseOfRequestsAlone) {
  const std::vector<GenerateRequest> requests = Requests();
  std::vector<GenerateResult> alone;
  {
    const auto engine = ServeWith(8192);
    ASSERT_NE(engine, nullptr);
    for (const GenerateRequest& request : requests) {
      alone.push_back(AnswersOf({request}, *engine).front());
    }
  }
  const auto expect_same = [&](std::unique_ptr<Engine> engine, const char* name, int32_t rounds) {
    ASSERT_NE(engine, nullptr);
    for (int32_t round = 0; round < rounds; ++round) {
      const std::vector<GenerateResult> answers = AnswersOf(requests, *engine);
      for (size_t i = 0; i < requests.size(); ++i) {
        SCOPED_TRACE(testing::Message() << name << ", request " << i << ", round " << round);
        ExpectSameBits(answers[i], alone[i]);
      }
    }
  };
  expect_same(ServeWith(64), "64 tokens a step", 1);
  // Of one request of full length: they are preempted and computed again.
  expect_same(ServeWith(500, 0, false, /*cache_bytes=*/1), "a small cache", 1);
  expect_same(ServeWith(300, 0, /*prefix_cache=*/true), "shared beginnings", 2);
  expect_same(ServeWith(300, /*speculative_tokens=*/6), "guesses", 1);
}

TEST_F(LongRopeTest, ScoresOfShortAndLongContinuationsAreThoseOfEachAlone) {
  ScoreRequest all;
  all.model = "model";
  all.prompt = Ids(kOriginal - 20);
  all.per_token = true;
  for (const int32_t length : {21, 3, 300, 20, 19, 1, 40, 22, 15}) {
    all.continuations.emplace_back(Ids(length));
  }
  TokenIds longer = std::get<TokenIds>(all.continuations[3]);
  longer.push_back(5);
  all.continuations.emplace_back(std::move(longer));
  for (const int32_t max_batch_tokens : {8192, 64}) {
    const auto engine = ServeWith(max_batch_tokens);
    ASSERT_NE(engine, nullptr);
    const auto together = engine->ScoreAndWait(all);
    ASSERT_TRUE(together.ok()) << together.status();
    for (size_t i = 0; i < all.continuations.size(); ++i) {
      ScoreRequest one = all;
      one.continuations = {all.continuations[i]};
      const auto alone = engine->ScoreAndWait(one);
      ASSERT_TRUE(alone.ok()) << alone.status();
      EXPECT_EQ(together->scores[i].logprob, alone->scores[0].logprob) << i;
    }
    // With one token more the same beginning has other angles.
    EXPECT_NE(together->scores[3].tokens[0].logprob, together->scores[9].tokens[0].logprob);
  }
}

// A prompt's log-probabilities are those of the whole prompt's angles, though its first piece would
// be short.
TEST_F(LongRopeTest, PromptLogprobsOfAPieceHaveTheWholePromptsAngles) {
  const auto engine = ServeWith(8192);
  ASSERT_NE(engine, nullptr);
  const TokenIds prompt = Ids(kOriginal + 1);
  GenerateRequest request = Greedy(prompt);
  request.output.prompt_logprobs = 0;
  const auto answer = engine->GenerateAndWait(request);
  ASSERT_TRUE(answer.ok()) << answer.status();
  ScoreRequest score;
  score.model = "model";
  score.prompt = TokenIds{prompt[0]};
  score.continuations = {TokenIds(prompt.begin() + 1, prompt.end())};
  score.per_token = true;
  const auto scored = engine->ScoreAndWait(score);
  ASSERT_TRUE(scored.ok()) << scored.status();
  for (size_t i = 0; i < answer->prompt_logprobs.size(); ++i) {
    EXPECT_NEAR(answer->prompt_logprobs[i].chosen.logprob, scored->scores[0].tokens[i].logprob,
                1e-4)
        << i;
  }
}

}  // namespace
}  // namespace beamline::longrope_test
