// Score, prompt log-probabilities and salted caches of the demo models: against transformers
// (tests/golden/score.jsonl, written by tools/make_score_golden.py), against Generate, and under
// small limits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "tests/engine/demo_engine.h"
#include "tests/golden/golden_rows.h"

namespace beamline::score_test {
namespace {

using nlohmann::json;
using testing::HasSubstr;

class RecordingScoreSink : public ScoreSink {
 public:
  void OnFinish(absl::StatusOr<ScoreResult> result) override {
    result_.set_value(std::move(result));
  }
  absl::StatusOr<ScoreResult> Wait() { return result_.get_future().get(); }

 private:
  std::promise<absl::StatusOr<ScoreResult>> result_;
};

ScoreRequest GoldenRequest(const json& row) {
  ScoreRequest request;
  request.model = row["model"];
  request.prompt = row["prompt"].get<std::string>();
  for (const json& continuation : row["continuations"]) {
    request.continuations.emplace_back(continuation["text"].get<std::string>());
  }
  request.per_token = true;
  return request;
}

std::unique_ptr<Engine> MakeEngine(ModelOptions model) {
  EngineOptions options = TestEngineOptions();
  options.models = {std::move(model)};
  auto engine = Engine::Create(options);
  EXPECT_TRUE(engine.ok()) << engine.status();
  return engine.ok() ? *std::move(engine) : nullptr;
}

int64_t UsedBlocks(const Engine& engine, const std::string& model) {
  // The last request's blocks go back right after its answer.
  for (int i = 0; i < 20000 && engine.Stats(model)->used_blocks > 0; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return engine.Stats(model)->used_blocks;
}

TEST(ScoreTest, IsWhatTransformersFinds) {
  const std::vector<json> rows = GoldenRows("score.jsonl");
  ASSERT_EQ(rows.size(), 30u);
  for (const json& row : rows) {
    const auto result = SharedEngine().ScoreAndWait(GoldenRequest(row));
    ASSERT_TRUE(result.ok()) << result.status();
    ASSERT_EQ(result->scores.size(), row["continuations"].size());
    EXPECT_EQ(result->usage.prompt_tokens, static_cast<int32_t>(row["prompt_ids"].size()));
    EXPECT_EQ(result->usage.generated_tokens, 0);
    EXPECT_EQ(result->timing.first_token.count(), 0);
    EXPECT_GT(result->timing.total.count(), 0);
    for (size_t i = 0; i < result->scores.size(); ++i) {
      const json& expected = row["continuations"][i];
      const ContinuationScore& score = result->scores[i];
      ASSERT_EQ(score.num_tokens, static_cast<int32_t>(expected["ids"].size())) << expected;
      ASSERT_EQ(score.tokens.size(), expected["ids"].size());
      double sum = 0.0;
      for (size_t t = 0; t < score.tokens.size(); ++t) {
        EXPECT_EQ(score.tokens[t].id, expected["ids"][t].get<int32_t>());
        EXPECT_NEAR(score.tokens[t].logprob, expected["logprobs"][t].get<double>(), 1e-3);
        sum += score.tokens[t].logprob;
      }
      EXPECT_NEAR(score.logprob, sum, 1e-6);
    }
  }
}

TEST(ScoreTest, IsWhatGenerateTold) {
  std::vector<GenerateRequest> requests;
  for (const json& row : GoldenRows("write.jsonl")) {
    if (requests.size() < 10) requests.push_back(Write(row["text"], 100));
  }
  for (const json& row : GoldenRows("translate.jsonl")) {
    if (requests.size() < 20) requests.push_back(Translate(row["text"], GreedyOptions()));
  }
  for (GenerateRequest& generate : requests) {
    generate.output.return_logprobs = true;
    const auto generated = SharedEngine().GenerateAndWait(generate);
    ASSERT_TRUE(generated.ok()) << generated.status();
    const GeneratedSequence& sequence = generated->sequences[0];
    ScoreRequest score;
    score.model = generate.model;
    score.prompt = generate.prompt;
    score.continuations = {sequence.ids, TokenIds(sequence.ids.begin(), sequence.ids.begin() + 1)};
    score.per_token = true;
    const auto scored = SharedEngine().ScoreAndWait(score);
    ASSERT_TRUE(scored.ok()) << scored.status();
    ASSERT_EQ(scored->scores[0].tokens.size(), sequence.ids.size());
    for (size_t i = 0; i < sequence.ids.size(); ++i) {
      EXPECT_NEAR(scored->scores[0].tokens[i].logprob, sequence.logprobs[i].chosen.logprob, 1e-4);
    }
    EXPECT_EQ(scored->scores[1].tokens[0].logprob, scored->scores[0].tokens[0].logprob);
  }
}

// The golden rows of a model; with a sanitizer a third of them, which is slow and takes the same
// paths.
std::vector<json> RowsOf(const std::string& name) {
  std::vector<json> rows;
  for (json& row : GoldenRows("score.jsonl")) {
    if (row["model"] == name) rows.push_back(std::move(row));
  }
  if (kSanitized) rows.resize((rows.size() + 2) / 3);
  return rows;
}

// A server of few sequences computes the same in smaller pieces.
TEST(ScoreTest, PiecesDoNotChangeIt) {
  for (const char* name : {"write-en", "translate-en-de"}) {
    ModelOptions options = Demo(name);
    options.max_sequences = 3;
    const std::unique_ptr<Engine> small = MakeEngine(options);
    for (const json& row : RowsOf(name)) {
      const auto whole = SharedEngine().ScoreAndWait(GoldenRequest(row));
      const auto pieces = small->ScoreAndWait(GoldenRequest(row));
      ASSERT_TRUE(whole.ok() && pieces.ok()) << whole.status() << pieces.status();
      for (size_t i = 0; i < whole->scores.size(); ++i) {
        EXPECT_EQ(whole->scores[i].logprob, pieces->scores[i].logprob) << row["continuations"][i];
      }
    }
  }
}

// Ids of a text of `count` tokens that no model has seen.
TokenIds SomeIds(int32_t count) {
  TokenIds ids;
  for (int32_t i = 0; i < count; ++i) ids.push_back(10 + i * i * 37 % 5000);
  return ids;
}

// The logits of a server of few sequences lie in memory 64 rows at a time. A request that wants
// those of hundreds of tokens has them in one step, piece by piece, and so have those beside it.
TEST(ScoreTest, AStepMayWantMoreLogitsThanLieInMemory) {
  ModelOptions options = Demo("write-en");
  options.max_sequences = 8;
  const std::unique_ptr<Engine> few = MakeEngine(options);
  options.max_batch_tokens = 16;
  const std::unique_ptr<Engine> small_steps = MakeEngine(options);
  ScoreRequest score;
  score.model = "write-en";
  score.prompt = TokenIds{5, 6, 7};
  score.continuations = {SomeIds(450), SomeIds(130), SomeIds(63)};
  score.per_token = true;
  GenerateRequest generate = Write("The answer is", 40);
  generate.decoding = SamplingOptions{.temperature = 0.9f, .seed = 11};
  generate.limits.ignore_eos = true;
  const auto alone = few->GenerateAndWait(generate);
  const auto expected = small_steps->ScoreAndWait(score);
  ASSERT_TRUE(alone.ok() && expected.ok()) << alone.status() << expected.status();

  std::vector<std::shared_ptr<RecordingSink>> generations;
  std::vector<std::shared_ptr<RecordingScoreSink>> scores;
  for (int i = 0; i < 4; ++i) {
    generations.push_back(std::make_shared<RecordingSink>());
    ASSERT_TRUE(few->Generate(generate, generations.back()).ok());
    scores.push_back(std::make_shared<RecordingScoreSink>());
    ASSERT_TRUE(few->Score(score, scores.back()).ok());
  }
  for (const auto& sink : scores) {
    const auto found = sink->Wait();
    ASSERT_TRUE(found.ok()) << found.status();
    for (size_t c = 0; c < score.continuations.size(); ++c) {
      ASSERT_EQ(found->scores[c].tokens.size(), expected->scores[c].tokens.size());
      for (size_t t = 0; t < found->scores[c].tokens.size(); ++t) {
        EXPECT_NEAR(found->scores[c].tokens[t].logprob, expected->scores[c].tokens[t].logprob, 1e-4)
            << "token " << t << " of continuation " << c;
      }
    }
  }
  for (const auto& sink : generations) {
    const auto found = sink->Wait();
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_EQ(found->sequences[0].ids, alone->sequences[0].ids);
  }
}

// Together with generation in a cache that holds little more than one request of full length.
TEST(ScoreTest, SurvivesATightCache) {
  for (const char* name : {"write-en", "translate-en-de"}) {
    ModelOptions options = Demo(name);
    options.cache_bytes = 1;  // raised to one request of full length
    options.max_sequences = 64;
    const std::unique_ptr<Engine> tight = MakeEngine(options);
    std::vector<json> rows = RowsOf(name);
    if (kSanitized) rows.resize((rows.size() + 1) / 2);
    std::vector<std::shared_ptr<RecordingScoreSink>> scores;
    std::vector<std::shared_ptr<RecordingSink>> others;
    for (const json& row : rows) {
      ScoreRequest request = GoldenRequest(row);
      for (int i = 0; i < (kSanitized ? 1 : 3); ++i) {
        const std::vector<Prompt> again = request.continuations;
        request.continuations.insert(request.continuations.end(), again.begin(), again.end());
      }
      scores.push_back(std::make_shared<RecordingScoreSink>());
      ASSERT_TRUE(tight->Score(request, scores.back()).ok());
      GenerateRequest generate = Write(row["prompt"], 60);
      generate.model = name;
      others.push_back(std::make_shared<RecordingSink>());
      ASSERT_TRUE(tight->Generate(generate, others.back()).ok());
    }
    for (size_t r = 0; r < rows.size(); ++r) {
      const auto expected = SharedEngine().ScoreAndWait(GoldenRequest(rows[r]));
      const auto result = scores[r]->Wait();
      ASSERT_TRUE(result.ok() && expected.ok()) << result.status();
      for (size_t i = 0; i < result->scores.size(); ++i) {
        EXPECT_EQ(result->scores[i].logprob, expected->scores[i % expected->scores.size()].logprob);
      }
      EXPECT_TRUE(others[r]->Wait().ok());
    }
    EXPECT_EQ(UsedBlocks(*tight, name), 0);
  }
}

TEST(ScoreTest, CancelAndDeadlineFreeItsBlocks) {
  ScoreRequest request;
  request.model = "write-en";
  request.prompt = "Package: ";
  request.continuations.assign(4096, TokenIds(64, 7));
  auto sink = std::make_shared<RecordingScoreSink>();
  const auto handle = SharedEngine().Score(request, sink);
  ASSERT_TRUE(handle.ok());
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  (*handle)->Cancel();
  EXPECT_EQ(sink->Wait().status().code(), absl::StatusCode::kCancelled);
  request.deadline = Clock::now() + std::chrono::milliseconds(50);
  EXPECT_EQ(SharedEngine().ScoreAndWait(request).status().code(),
            absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(UsedBlocks(SharedEngine(), "write-en"), 0);
}

TEST(ScoreTest, RefusesBadRequestsByFieldAndRange) {
  const auto message = [](const ScoreRequest& request) {
    const auto result = SharedEngine().ScoreAndWait(request);
    EXPECT_EQ(result.status().code(), absl::StatusCode::kInvalidArgument) << result.status();
    return std::string(result.status().message());
  };
  ScoreRequest good;
  good.model = "write-en";
  good.prompt = "Package: ";
  good.continuations = {"vim", "emacs"};
  ScoreRequest bad = good;
  bad.model = "embed-en";
  EXPECT_THAT(message(bad), HasSubstr("model is 'embed-en', which only encodes; Score accepts"));
  bad = good;
  bad.prompt = TokenIds{};
  EXPECT_THAT(message(bad), HasSubstr("prompt.ids is empty"));
  bad = good;
  bad.continuations.clear();
  EXPECT_THAT(message(bad), HasSubstr("continuations has 0 entries; accepted: 1 to 4096"));
  bad.continuations.assign(4097, "a");
  EXPECT_THAT(message(bad), HasSubstr("continuations has 4097 entries"));
  bad = good;
  bad.continuations[1] = "";
  EXPECT_THAT(message(bad), HasSubstr("continuations[1].text is empty"));
  bad.continuations[1] = TokenIds{};
  EXPECT_THAT(message(bad), HasSubstr("continuations[1].ids is empty"));
  bad.continuations[1] = TokenIds{1, 6000};
  EXPECT_THAT(message(bad), HasSubstr("continuations[1].ids[1] is 6000; accepted: 0 to 5999"));
  bad.continuations[1] = TokenIds(511, 7);
  bad.prompt = TokenIds{1, 2};
  EXPECT_THAT(message(bad), HasSubstr("continuations[1] has 511 tokens; accepted: at most 510 "
                                      "behind 2 of the model's 512 positions"));
  bad.continuations[1] = TokenIds(510, 7);
  EXPECT_TRUE(SharedEngine().ScoreAndWait(bad).ok());
  bad = good;
  bad.priority = 101;
  EXPECT_THAT(message(bad), HasSubstr("priority is 101"));
  bad.model = "gpt";
  EXPECT_EQ(SharedEngine().ScoreAndWait(bad).status().code(), absl::StatusCode::kNotFound);
}

GenerateRequest WithPromptLogprobs(GenerateRequest request, int32_t num_top) {
  request.output.prompt_logprobs = num_top;
  return request;
}

TEST(PromptLogprobsTest, AreWhatTransformersFinds) {
  for (const json& row : GoldenRows("score.jsonl")) {
    if (row["model"] != "write-en") continue;
    const auto result =
        SharedEngine().GenerateAndWait(WithPromptLogprobs(Write(row["prompt"], 2), 3));
    ASSERT_TRUE(result.ok()) << result.status();
    ASSERT_EQ(result->prompt_logprobs.size(), row["prompt_logprobs"].size());
    for (size_t i = 0; i < result->prompt_logprobs.size(); ++i) {
      const PositionLogprobs& position = result->prompt_logprobs[i];
      EXPECT_EQ(position.chosen.id, row["prompt_ids"][i + 1].get<int32_t>());
      EXPECT_NEAR(position.chosen.logprob, row["prompt_logprobs"][i].get<double>(), 1e-3);
      ASSERT_EQ(position.top.size(), 3u);
      for (size_t k = 0; k < 3; ++k) {
        EXPECT_NEAR(position.top[k].logprob, row["prompt_top"][i][k]["logprob"].get<double>(),
                    1e-3);
      }
    }
  }
}

TEST(PromptLogprobsTest, ChangeNothingElse) {
  std::string prompt;
  for (int i = 0; i < 40; ++i) prompt += "a long prompt of many tokens, ";
  for (const Decoding& decoding :
       {Decoding(GreedyOptions()), Decoding(BeamOptions{.width = 4, .num_sequences = 2}),
        Decoding(SamplingOptions{.seed = 5, .num_sequences = 2})}) {
    GenerateRequest request = Write(prompt, 12);
    request.decoding = decoding;
    const auto plain = SharedEngine().GenerateAndWait(request);
    const auto result = SharedEngine().GenerateAndWait(WithPromptLogprobs(request, 0));
    ASSERT_TRUE(plain.ok() && result.ok()) << plain.status() << result.status();
    EXPECT_EQ(result->prompt_logprobs.size(), static_cast<size_t>(result->usage.prompt_tokens) - 1);
    EXPECT_TRUE(result->prompt_logprobs[0].top.empty());
    EXPECT_EQ(result->usage.cached_tokens, 0);  // the whole prompt was computed
    EXPECT_GT(result->timing.first_token.count(), 0);
    ASSERT_EQ(result->sequences.size(), plain->sequences.size());
    for (size_t i = 0; i < plain->sequences.size(); ++i) {
      EXPECT_EQ(result->sequences[i].ids, plain->sequences[i].ids);
      EXPECT_EQ(result->sequences[i].score, plain->sequences[i].score);
    }
    EXPECT_TRUE(plain->prompt_logprobs.empty());
  }
}

TEST(PromptLogprobsTest, RefusedByFieldAndRange) {
  auto result = SharedEngine().GenerateAndWait(WithPromptLogprobs(Write("a", 1), 21));
  EXPECT_EQ(result.status().message(), "output.prompt_logprobs is 21; accepted: 0 to 20");
  result = SharedEngine().GenerateAndWait(WithPromptLogprobs(Translate("a", GreedyOptions()), 1));
  EXPECT_THAT(std::string(result.status().message()),
              HasSubstr("output.prompt_logprobs is set; accepted for decoder-only models only"));
}

TEST(CacheSaltTest, SharesCachedPromptsWithItsOwnOnly) {
  const std::string prompt(400, 'x');
  const auto cached_tokens = [&prompt](const std::string& salt) {
    GenerateRequest request = Write("Package: salt " + prompt, 1);
    request.cache_salt = salt;
    const auto result = SharedEngine().GenerateAndWait(request);
    EXPECT_TRUE(result.ok()) << result.status();
    return result.ok() ? result->usage.cached_tokens : -1;
  };
  EXPECT_EQ(cached_tokens("a"), 0);
  EXPECT_GT(cached_tokens("a"), 0);
  EXPECT_EQ(cached_tokens("b"), 0);
  EXPECT_EQ(cached_tokens(""), 0);
  ScoreRequest score;
  score.model = "write-en";
  score.prompt = "Package: salt " + prompt;
  score.continuations = {"y"};
  score.cache_salt = "a";
  EXPECT_GT(SharedEngine().ScoreAndWait(score)->usage.cached_tokens, 0);
  score.cache_salt = "c";
  EXPECT_EQ(SharedEngine().ScoreAndWait(score)->usage.cached_tokens, 0);
}

}  // namespace
}  // namespace beamline::score_test
