// Long prompts against transformers' answers (tests/golden/long; fields: tests/golden/README.md).
// Every budget of tokens per step must give the same bits: prompts are computed in pieces of other
// sizes, in steps that they share with other requests.
#include <gtest/gtest.h>

#include <algorithm>
#include <future>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tests/engine/long_models.h"
#include "tests/engine/random_model.h"
#include "tests/engine/test_device.h"
#include "tests/golden/golden_rows.h"
#include "tests/sanitized.h"

namespace beamline::long_prompts_test {
namespace {

using nlohmann::json;

// On a GPU bits may depend on the batch: there the answers are compared with transformers' alone.
const bool kOnGpu = TestDevice() == "cuda";

// A log-probability errs as its logit does, and as the sum that normalises it.
double Tolerance(const json& row) {
  return 2 * std::max(2e-5, 10 * row["float32_error"].get<double>());
}

class ScoreRecorder : public ScoreSink {
 public:
  void OnFinish(absl::StatusOr<ScoreResult> result) override {
    result_.set_value(std::move(result));
  }
  absl::StatusOr<ScoreResult> Wait() { return result_.get_future().get(); }

 private:
  std::promise<absl::StatusOr<ScoreResult>> result_;
};

// One golden row's requests. `prompt` also asks for the prompt's log-probabilities.
struct RowRequests {
  GenerateRequest greedy;
  std::vector<GenerateRequest> prompt, wide;  // at most one each; wide: several sequences
  std::vector<ScoreRequest> score;
};

struct RowAnswers {
  GenerateResult greedy, prompt, wide;
  ScoreResult score;
};

GenerateRequest Generate(const json& row, int32_t max_new_tokens, Decoding decoding) {
  GenerateRequest request;
  request.model = "model";
  request.prompt = row["input_ids"].get<TokenIds>();
  if (row.contains("target_prefix")) request.target_prefix = row["target_prefix"].get<TokenIds>();
  request.limits.max_new_tokens = max_new_tokens;
  request.output.return_logprobs = std::holds_alternative<GreedyOptions>(decoding);
  request.decoding = std::move(decoding);
  return request;
}

RowRequests RequestsOf(const json& row, int32_t max_new_tokens) {
  RowRequests requests = {.greedy = Generate(row, max_new_tokens, GreedyOptions())};
  if (row.contains("prompt_logprobs")) {
    requests.prompt.push_back(requests.greedy);
    requests.prompt[0].output.prompt_logprobs = 0;
  }
  if (row.contains("beams")) {
    const json& beams = row["beams"];
    requests.wide.push_back(
        Generate(row, max_new_tokens,
                 BeamOptions{.width = beams["num_beams"].get<int32_t>(),
                             .num_sequences = beams["num_return"].get<int32_t>(),
                             .length_penalty = beams["length_penalty"].get<float>(),
                             .early_stopping = EarlyStopping::kHeuristic}));
  }
  if (row.contains("score")) {
    ScoreRequest score;
    score.model = "model";
    score.prompt = row["input_ids"].get<TokenIds>();
    for (const json& continuation : row["score"]) {
      score.continuations.emplace_back(continuation["ids"].get<TokenIds>());
    }
    score.per_token = true;
    requests.score.push_back(std::move(score));
  }
  return requests;
}

// Submits every request at once.
std::vector<RowAnswers> AnswersOf(const std::vector<RowRequests>& rows, Engine& engine) {
  std::vector<std::shared_ptr<RecordingSink>> generated;
  std::vector<std::shared_ptr<ScoreRecorder>> scored;
  const auto generate = [&](const GenerateRequest& request) {
    generated.push_back(std::make_shared<RecordingSink>());
    const auto handle = engine.Generate(request, generated.back());
    if (!handle.ok()) generated.back()->OnFinish(handle.status());
  };
  for (const RowRequests& row : rows) {
    generate(row.greedy);
    for (const GenerateRequest& request : row.prompt) generate(request);
    for (const GenerateRequest& request : row.wide) generate(request);
    for (const ScoreRequest& request : row.score) {
      scored.push_back(std::make_shared<ScoreRecorder>());
      const auto handle = engine.Score(request, scored.back());
      if (!handle.ok()) scored.back()->OnFinish(handle.status());
    }
  }
  auto next = generated.begin();
  auto next_score = scored.begin();
  const auto take = [](auto& sink, auto& answer) {
    auto result = sink->Wait();
    EXPECT_TRUE(result.ok()) << result.status();
    if (result.ok()) answer = *std::move(result);
  };
  std::vector<RowAnswers> answers(rows.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    take(*next++, answers[i].greedy);
    if (!rows[i].prompt.empty()) take(*next++, answers[i].prompt);
    if (!rows[i].wide.empty()) take(*next++, answers[i].wide);
    if (!rows[i].score.empty()) take(*next_score++, answers[i].score);
  }
  return answers;
}

void ExpectGreedy(const GenerateResult& result, const json& row) {
  ASSERT_EQ(result.sequences.size(), 1u);
  const GeneratedSequence& sequence = result.sequences[0];
  const json& golden = row["greedy"];
  ASSERT_EQ(sequence.ids, golden["ids"].get<TokenIds>());
  ASSERT_EQ(sequence.logprobs.size(), golden["logprobs"].size());
  for (size_t i = 0; i < sequence.logprobs.size(); ++i) {
    EXPECT_NEAR(sequence.logprobs[i].chosen.logprob, golden["logprobs"][i].get<double>(),
                Tolerance(row));
  }
}

void ExpectPrompt(const GenerateResult& result, const json& row) {
  const json& golden = row["prompt_logprobs"];
  ASSERT_EQ(result.prompt_logprobs.size(), row["input_ids"].size() - 1);
  double sum = 0;
  for (const PositionLogprobs& position : result.prompt_logprobs) sum += position.chosen.logprob;
  const double mean_error = (sum - golden["sum"].get<double>()) / result.prompt_logprobs.size();
  EXPECT_NEAR(mean_error, 0, Tolerance(row));
  for (size_t i = 0; i < golden["positions"].size(); ++i) {
    const auto position = golden["positions"][i].get<size_t>();
    EXPECT_NEAR(result.prompt_logprobs[position].chosen.logprob,
                golden["logprobs"][i].get<double>(), Tolerance(row))
        << "position " << position;
  }
}

void ExpectBeams(const GenerateResult& result, const json& row) {
  const json& golden = row["beams"]["hypotheses"];
  ASSERT_EQ(result.sequences.size(), golden.size());
  for (size_t i = 0; i < golden.size(); ++i) {
    EXPECT_EQ(result.sequences[i].ids, golden[i]["ids"].get<TokenIds>());
    EXPECT_NEAR(result.sequences[i].score, golden[i]["score"].get<double>(), Tolerance(row));
  }
}

void ExpectScores(const ScoreResult& result, const json& row) {
  ASSERT_EQ(result.scores.size(), row["score"].size());
  for (size_t i = 0; i < result.scores.size(); ++i) {
    const json& golden = row["score"][i];
    const ContinuationScore& score = result.scores[i];
    ASSERT_EQ(score.tokens.size(), golden["logprobs"].size());
    EXPECT_NEAR(score.logprob / score.num_tokens,
                golden["logprob"].get<double>() / score.num_tokens, Tolerance(row));
    for (size_t t = 0; t < score.tokens.size(); ++t) {
      EXPECT_NEAR(score.tokens[t].logprob, golden["logprobs"][t].get<double>(), Tolerance(row))
          << "token " << t << " of continuation " << i;
    }
  }
}

void ExpectGolden(const RowAnswers& answers, const json& row) {
  ExpectGreedy(answers.greedy, row);
  if (!answers.prompt.sequences.empty()) {
    ExpectGreedy(answers.prompt, row);
    ExpectPrompt(answers.prompt, row);
  }
  if (row.contains("beams")) ExpectBeams(answers.wide, row);
  if (row.contains("score")) ExpectScores(answers.score, row);
}

std::vector<float> Logprobs(const std::vector<PositionLogprobs>& positions) {
  std::vector<float> logprobs;
  for (const PositionLogprobs& position : positions) logprobs.push_back(position.chosen.logprob);
  return logprobs;
}

// Of both lists, the first place where they differ; -1: nowhere.
ptrdiff_t FirstDifference(const std::vector<float>& a, const std::vector<float>& b) {
  const auto found = std::ranges::mismatch(a, b);
  return found.in1 == a.end() && found.in2 == b.end() ? -1 : found.in1 - a.begin();
}

void ExpectSameBits(const GenerateResult& result, const GenerateResult& expected) {
  ASSERT_EQ(result.sequences.size(), expected.sequences.size());
  for (size_t i = 0; i < result.sequences.size(); ++i) {
    const GeneratedSequence& a = result.sequences[i];
    const GeneratedSequence& b = expected.sequences[i];
    EXPECT_EQ(a.ids, b.ids);
    EXPECT_EQ(a.score, b.score);
    EXPECT_EQ(a.cumulative_logprob, b.cumulative_logprob);
    EXPECT_EQ(FirstDifference(Logprobs(a.logprobs), Logprobs(b.logprobs)), -1);
  }
  EXPECT_EQ(FirstDifference(Logprobs(result.prompt_logprobs), Logprobs(expected.prompt_logprobs)),
            -1);
}

void ExpectSameBits(const RowAnswers& answers, const RowAnswers& expected) {
  ExpectSameBits(answers.greedy, expected.greedy);
  if (!answers.prompt.sequences.empty()) ExpectSameBits(answers.prompt, expected.prompt);
  ExpectSameBits(answers.wide, expected.wide);
  ASSERT_EQ(answers.score.scores.size(), expected.score.scores.size());
  for (size_t i = 0; i < answers.score.scores.size(); ++i) {
    EXPECT_EQ(answers.score.scores[i].logprob, expected.score.scores[i].logprob);
  }
}

// A checkpoint of tests/golden/long, served with settings of the test's own.
class LongPromptsTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const std::string name = GetParam();
    const json golden = GoldenFile("long/" + name + "/expected.json");
    rows_ = golden["rows"];
    if (kSanitized) rows_ = json::array({rows_[0]});
    const auto vocab_size =
        GoldenFile("long/" + name + "/config.json")["vocab_size"].get<int32_t>();
    if (golden["kind"] == "encoder_decoder") {
      model_ = std::make_unique<RandomTranslator>(name, vocab_size, vocab_size, /*late_id=*/-1,
                                                  /*set=*/"long");
    } else {
      model_ = std::make_unique<RandomStack>(name, vocab_size, /*with_template=*/false,
                                             /*set=*/"long");
    }
    for (const json& row : rows_) {
      requests_.push_back(RequestsOf(row, golden["max_new_tokens"].get<int32_t>()));
    }
  }

  ModelOptions Options(int32_t max_batch_tokens, int32_t max_sequences) const {
    ModelOptions options = model_->Options("model");
    options.device = kOnGpu ? "cuda" : "cpu";
    options.max_batch_tokens = max_batch_tokens;
    options.max_sequences = max_sequences;
    options.max_queued_tokens = 1 << 20;  // all of a file's requests, whatever the budget
    options.prefix_cache = false;
    return options;
  }

  // With a prefix cache the answers of a second round, which finds the first one's prompts.
  static std::vector<RowAnswers> AnswersWith(const ModelOptions& options,
                                             const std::vector<RowRequests>& requests) {
    StepObserver observer;
    const auto engine = Serve({options}, &observer);
    EXPECT_TRUE(engine.ok()) << engine.status();
    if (!engine.ok()) return std::vector<RowAnswers>(requests.size());
    if (options.prefix_cache) AnswersOf(requests, **engine);
    auto answers = AnswersOf(requests, **engine);
    const auto info = (*engine)->FindModel("model");
    EXPECT_LE(observer.largest(), info->max_batch_tokens);
    if (info->task == ModelTask::kGenerate) {  // else a source may be longer
      EXPECT_EQ(info->max_batch_tokens, options.max_batch_tokens);
    }
    return answers;
  }

  // Two rows, and greedy ones whose prompts, or target prefixes, begin as the second row's.
  std::vector<RowRequests> SharedBeginnings() const {
    std::vector<RowRequests> requests(requests_.begin(),
                                      requests_.begin() + std::min<size_t>(2, requests_.size()));
    const GenerateRequest last = requests.back().greedy;
    const auto beginning = std::get<TokenIds>(last.target_prefix.value_or(last.prompt));
    for (const size_t count : {beginning.size() / 16 * 16, beginning.size() / 2, size_t{33}}) {
      GenerateRequest request = last;
      TokenIds ids(beginning.begin(), beginning.begin() + static_cast<ptrdiff_t>(count));
      ids.insert(ids.end(), beginning.begin() + 5, beginning.begin() + 15);
      (request.target_prefix.has_value() ? *request.target_prefix : request.prompt) = ids;
      GenerateRequest samples = request;
      samples.decoding = SamplingOptions{.seed = count, .num_sequences = 2};
      requests.push_back({.greedy = std::move(request), .wide = {std::move(samples)}});
    }
    return requests;
  }

  json rows_;
  std::vector<RowRequests> requests_;
  std::unique_ptr<LinkedModel> model_;
};

// The longest prompt takes most of the time: with every other budget its own log-probabilities are
// not asked for.
TEST_P(LongPromptsTest, AnswersAreTheReferencesWithAnyBudget) {
  const std::vector<RowAnswers> whole = AnswersWith(Options(8192, 32), requests_);
  for (size_t i = 0; i < rows_.size(); ++i) {
    SCOPED_TRACE(testing::Message() << "row " << i);
    ExpectGolden(whole[i], rows_[i]);
  }
  std::vector<RowRequests> fewer = requests_;
  if (fewer.size() > 1) fewer.back().prompt.clear();
  const std::vector<int32_t> budgets =
      kSanitized ? std::vector<int32_t>{64} : std::vector<int32_t>{500, 64, 16};
  for (const int32_t budget : budgets) {
    ModelOptions options = Options(budget, budget == 500 ? 32 : 4);
    // Raised to what one request of full length needs: the others wait, or are preempted.
    if (budget == 64) options.cache_bytes = 1;
    const std::vector<RowAnswers> pieces = AnswersWith(options, budget == 64 ? requests_ : fewer);
    for (size_t i = 0; i < rows_.size(); ++i) {
      SCOPED_TRACE(testing::Message() << "row " << i << ", " << budget << " tokens a step");
      kOnGpu ? ExpectGolden(pieces[i], rows_[i]) : ExpectSameBits(pieces[i], whole[i]);
    }
  }
}

TEST_P(LongPromptsTest, SettingsThatSpareTimeChangeNoBits) {
  const std::vector<RowRequests> requests = SharedBeginnings();
  const std::vector<RowAnswers> plain = AnswersWith(Options(8192, 32), requests);
  ModelOptions shared = Options(64, 4), guessed = Options(16, 4), fixed = Options(500, 32);
  shared.prefix_cache = true;
  guessed.speculative_tokens = 5;
  fixed.deterministic = true;
  for (const ModelOptions& options : {shared, guessed, fixed}) {
    const std::vector<RowAnswers> answers = AnswersWith(options, requests);
    for (size_t i = 0; i < requests.size(); ++i) {
      SCOPED_TRACE(testing::Message()
                   << "row " << i << ", " << options.max_batch_tokens << " tokens a step");
      if (!kOnGpu) ExpectSameBits(answers[i], plain[i]);
      const bool may_share = options.prefix_cache && !requests[i].greedy.target_prefix.has_value();
      EXPECT_EQ(answers[i].greedy.usage.cached_tokens > 0, may_share);
    }
  }
}

std::string NameOf(const testing::TestParamInfo<const char*>& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(
    Long, LongPromptsTest,
    ::testing::Values("gpt2-3x8", "llama-4of2x8", "llama-6of2x6-llama3", "llama-3x10-linear",
                      "llama-2of1x10-dynamic", "mistral-4of2x6-dynamic", "phi3-3x8-longrope",
                      "phi3-5of1x8-partial", "mistral-4of2x8-window100", "mistral-3of1x6-window333",
                      "qwen2-6of2x4-window", "qwen3-6of3x10-yarn", "gemma-3of1x12",
                      "gemma2-4of2x10-window", "gemma3-4of2x8-window", "bloom-5x6",
                      "falcon-5x6-alibi", "falcon-6of2x6", "gpt_neox-3x12", "gptj-3x10",
                      "gpt_neo-3x8-local", "opt-3x8", "olmo2-4of2x8", "starcoder2-4of2x6-window",
                      "mixtral-4of2x8", "qwen3_moe-4of2x6", "smollm3-3of1x10", "olmoe-4of2x6",
                      "bart-3x8", "marian-3x10", "m2m_100-5x6", "t5-3x8", "mt5-2x7"),
    NameOf);

}  // namespace
}  // namespace beamline::long_prompts_test
