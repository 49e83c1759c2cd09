// The engine over the demo models, in process: golden answers, batches, limits, cancellation,
// drain.
#include "engine/engine.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <fstream>
#include <future>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

namespace beamline {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;

std::vector<json> ReadGolden(const std::string& name) {
  std::ifstream file(std::string(BEAMLINE_SOURCE_DIR) + "/tests/golden/" + name);
  std::vector<json> rows;
  for (std::string line; std::getline(file, line);) rows.push_back(json::parse(line));
  return rows;
}

ModelOptions Demo(const std::string& name) {
  ModelOptions options;
  options.name = name;
  options.folder = std::string(BEAMLINE_SOURCE_DIR) + "/models/" + name;
  return options;
}

Engine& SharedEngine() {
  static const std::unique_ptr<Engine> engine = [] {
    EngineOptions options;
    options.models = {Demo("translate-en-de"), Demo("embed-en"), Demo("write-en")};
    auto created = Engine::Create(options);
    if (!created.ok()) {
      ADD_FAILURE() << created.status();
      std::abort();
    }
    return *std::move(created);
  }();
  return *engine;
}

// Collects deltas and the answer.
class RecordingSink : public GenerateSink {
 public:
  explicit RecordingSink(bool stream = false) : stream_(stream) {}
  bool wants_deltas() const override { return stream_; }
  void OnDelta(GenerateDelta delta) override {
    text_ += delta.text;
    ids_.insert(ids_.end(), delta.ids.begin(), delta.ids.end());
    if (!first_delta_seen_.exchange(true)) first_delta_.set_value();
  }
  void OnFinish(absl::StatusOr<GenerateResult> result) override {
    if (!first_delta_seen_.exchange(true)) first_delta_.set_value();
    result_.set_value(std::move(result));
  }
  absl::StatusOr<GenerateResult> Wait() { return result_.get_future().get(); }
  void WaitForFirstDelta() { first_delta_.get_future().wait(); }
  // REQUIRES: Wait() has returned.
  const std::string& text() const { return text_; }
  const TokenIds& ids() const { return ids_; }

 private:
  bool stream_;
  std::string text_;
  TokenIds ids_;
  std::atomic<bool> first_delta_seen_ = false;
  std::promise<void> first_delta_;
  std::promise<absl::StatusOr<GenerateResult>> result_;
};

GenerateRequest Write(const std::string& prompt, int32_t max_new_tokens) {
  GenerateRequest request;
  request.model = "write-en";
  request.prompt = prompt;
  request.decoding = GreedyOptions();
  request.limits.max_new_tokens = max_new_tokens;
  return request;
}

GenerateRequest Translate(const std::string& text, Decoding decoding) {
  GenerateRequest request;
  request.model = "translate-en-de";
  request.prompt = text;
  request.decoding = std::move(decoding);
  request.limits.max_new_tokens =
      199;  // the golden files' max_length of 200 counts the start token
  return request;
}

// Submits every request at once and waits for all.
std::vector<absl::StatusOr<GenerateResult>> RunTogether(
    const std::vector<GenerateRequest>& requests) {
  std::vector<std::shared_ptr<RecordingSink>> sinks;
  for (const GenerateRequest& request : requests) {
    sinks.push_back(std::make_shared<RecordingSink>());
    const auto handle = SharedEngine().Generate(request, sinks.back());
    EXPECT_TRUE(handle.ok()) << handle.status();
  }
  std::vector<absl::StatusOr<GenerateResult>> results;
  for (const auto& sink : sinks) results.push_back(sink->Wait());
  return results;
}

TEST(EngineGoldenTest, GreedyAloneAndTogether) {
  const std::vector<json> rows = ReadGolden("translate.jsonl");
  std::vector<GenerateRequest> requests;
  for (const json& row : rows) requests.push_back(Translate(row["text"], GreedyOptions()));
  const auto together = RunTogether(requests);
  for (size_t i = 0; i < rows.size(); ++i) {
    ASSERT_TRUE(together[i].ok()) << together[i].status();
    EXPECT_EQ(together[i]->sequences[0].ids, rows[i]["greedy_ids"].get<TokenIds>())
        << rows[i]["text"];
    EXPECT_EQ(together[i]->sequences[0].text, rows[i]["greedy_text"].get<std::string>());
    if (i % 10 != 0) continue;
    const auto alone = SharedEngine().GenerateAndWait(requests[i]);
    ASSERT_TRUE(alone.ok()) << alone.status();
    EXPECT_EQ(alone->sequences[0].ids, together[i]->sequences[0].ids);
    EXPECT_EQ(alone->sequences[0].cumulative_logprob, together[i]->sequences[0].cumulative_logprob);
  }
}

void ExpectBeams(const GenerateResult& result, const json& hypotheses, const json& text) {
  ASSERT_EQ(result.sequences.size(), hypotheses.size());
  for (size_t h = 0; h < hypotheses.size(); ++h) {
    EXPECT_EQ(result.sequences[h].ids, hypotheses[h]["ids"].get<TokenIds>()) << text << " " << h;
    EXPECT_NEAR(result.sequences[h].score, hypotheses[h]["score"].get<double>(), 1e-3) << text;
  }
}

TEST(EngineGoldenTest, BeamSearchFindsTheSameHypotheses) {
  const std::vector<json> rows = ReadGolden("translate.jsonl");
  std::vector<GenerateRequest> requests;
  for (const json& row : rows) {
    requests.push_back(Translate(row["text"], BeamOptions{.width = 4, .num_sequences = 4}));
  }
  const auto results = RunTogether(requests);
  for (size_t i = 0; i < rows.size(); ++i) {
    ASSERT_TRUE(results[i].ok()) << results[i].status();
    ExpectBeams(*results[i], rows[i]["beam4"], rows[i]["text"]);
    EXPECT_EQ(results[i]->sequences[0].text, rows[i]["beam4_text"].get<std::string>());
  }
}

TEST(EngineGoldenTest, BeamSearchVariants) {
  int checked = 0;
  for (const json& row : ReadGolden("translate.jsonl")) {
    if (!row.contains("extra")) continue;
    for (const auto& [name, expected] : row["extra"].items()) {
      BeamOptions beam = {.width = 4, .num_sequences = static_cast<int32_t>(expected.size())};
      GenerateRequest request = Translate(row["text"], GreedyOptions());
      if (name == "length_penalty_0.6") beam.length_penalty = 0.6f;
      if (name == "length_penalty_2.0") beam.length_penalty = 2.0f;
      if (name == "num_beams_8") beam.width = 8;
      if (name == "no_repeat_ngram_size_3") request.shaping.no_repeat_ngram_size = 3;
      request.decoding = beam;
      const auto result = SharedEngine().GenerateAndWait(request);
      ASSERT_TRUE(result.ok()) << result.status();
      ExpectBeams(*result, expected, row["text"].get<std::string>() + " " + name);
      ++checked;
    }
  }
  EXPECT_EQ(checked, 40);
}

TEST(EngineGoldenTest, WriteGreedyWithLogprobs) {
  for (const json& row : ReadGolden("write.jsonl")) {
    GenerateRequest request = Write(row["text"], 48);
    request.output.return_logprobs = true;
    request.output.logprobs = 5;
    request.output.skip_special_tokens = false;
    const auto result = SharedEngine().GenerateAndWait(request);
    ASSERT_TRUE(result.ok()) << result.status();
    const GeneratedSequence& sequence = result->sequences[0];
    EXPECT_EQ(sequence.ids, row["greedy_ids"].get<TokenIds>());
    EXPECT_EQ(sequence.text, row["greedy_text"].get<std::string>());
    ASSERT_EQ(sequence.logprobs.size(), sequence.ids.size());
    for (size_t i = 0; i < sequence.ids.size(); ++i) {
      EXPECT_NEAR(sequence.logprobs[i].chosen.logprob, row["greedy_logprobs"][i].get<double>(),
                  1e-3);
    }
    ASSERT_EQ(sequence.logprobs[0].top.size(), 5u);
    for (size_t k = 0; k < 5; ++k) {
      EXPECT_EQ(sequence.logprobs[0].top[k].id, row["first_top5"][k]["id"].get<int32_t>());
      EXPECT_NEAR(sequence.logprobs[0].top[k].logprob,
                  row["first_top5"][k]["logprob"].get<double>(), 1e-3);
    }
    if (row.contains("repetition_penalty_1.3_ids")) {
      request.shaping.repetition_penalty = 1.3f;
      const auto penalised = SharedEngine().GenerateAndWait(request);
      ASSERT_TRUE(penalised.ok()) << penalised.status();
      EXPECT_EQ(penalised->sequences[0].ids, row["repetition_penalty_1.3_ids"].get<TokenIds>());
    }
  }
}

TEST(EngineGoldenTest, EmbeddingsAloneAndTogether) {
  const std::vector<json> rows = ReadGolden("embed.jsonl");
  EncodeRequest together;
  together.model = "embed-en";
  together.truncate = EncodeTruncation::kRight;
  for (const json& row : rows) together.inputs.emplace_back(row["text"].get<std::string>());
  const auto result = SharedEngine().EncodeAndWait(together);
  ASSERT_TRUE(result.ok()) << result.status();
  for (size_t i = 0; i < rows.size(); ++i) {
    EncodeRequest alone = together;
    alone.inputs = {together.inputs[i]};
    const auto one = SharedEngine().EncodeAndWait(alone);
    ASSERT_TRUE(one.ok()) << one.status();
    const auto expected = rows[i]["embedding"].get<std::vector<float>>();
    ASSERT_EQ(result->embeddings[i].values.size(), expected.size());
    for (size_t d = 0; d < expected.size(); ++d) {
      EXPECT_NEAR(result->embeddings[i].values[d], expected[d], 1e-4);
    }
    EXPECT_EQ(one->embeddings[0].values, result->embeddings[i].values) << "row " << i;
  }
}

TEST(EngineTest, StreamsWhatTheAnswerHolds) {
  for (const Decoding& decoding : {Decoding(GreedyOptions()), Decoding(BeamOptions{.width = 4}),
                                   Decoding(SamplingOptions{.seed = 5})}) {
    GenerateRequest request = Write("Package: beam\nSynopsis:", 40);
    request.decoding = decoding;
    auto sink = std::make_shared<RecordingSink>(/*stream=*/true);
    ASSERT_TRUE(SharedEngine().Generate(request, sink).ok());
    const auto result = sink->Wait();
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(sink->text(), result->sequences[0].text);
    EXPECT_EQ(sink->ids(), result->sequences[0].ids);
  }
}

TEST(EngineTest, SamplingRepeatsAloneAndUnderLoad) {
  GenerateRequest request = Write("Package: dice\nSynopsis:", 32);
  request.decoding =
      SamplingOptions{.temperature = 1.0f, .top_p = 0.95f, .seed = 42, .num_sequences = 3};
  const auto alone = SharedEngine().GenerateAndWait(request);
  ASSERT_TRUE(alone.ok()) << alone.status();
  ASSERT_EQ(alone->sequences.size(), 3u);
  EXPECT_NE(alone->sequences[0].ids, alone->sequences[1].ids);
  std::vector<GenerateRequest> requests(12, request);
  for (size_t i = 1; i < requests.size(); i += 2)
    requests[i] = Write("Package: noise", 20 + static_cast<int32_t>(i));
  const auto together = RunTogether(requests);
  for (size_t i = 0; i < requests.size(); i += 2) {
    ASSERT_TRUE(together[i].ok());
    for (int s = 0; s < 3; ++s) EXPECT_EQ(together[i]->sequences[s].ids, alone->sequences[s].ids);
  }
}

TEST(EngineTest, RefusesBadRequestsByFieldAndRange) {
  const auto message = [](const GenerateRequest& request) {
    const auto result = SharedEngine().GenerateAndWait(request);
    EXPECT_EQ(result.status().code(), absl::StatusCode::kInvalidArgument) << result.status();
    return std::string(result.status().message());
  };
  EXPECT_EQ(SharedEngine()
                .GenerateAndWait([] {
                  auto r = Write("a", 1);
                  r.model = "gpt";
                  return r;
                }())
                .status()
                .code(),
            absl::StatusCode::kNotFound);
  EXPECT_NE(message(Write("", 1)).find("prompt.text is empty"), std::string::npos);
  GenerateRequest outside = Write("", 1);
  outside.prompt = TokenIds{1, 6000};
  EXPECT_NE(message(outside).find("prompt.ids[1] is 6000; accepted: 0 to 5999"), std::string::npos);
  GenerateRequest longer = Write("", 1);
  longer.prompt = TokenIds(600, 1);
  EXPECT_NE(message(longer).find("prompt has 600 tokens; accepted: at most 511"),
            std::string::npos);
  GenerateRequest encoder = Write("a", 1);
  encoder.model = "embed-en";
  EXPECT_NE(message(encoder).find("model is 'embed-en'"), std::string::npos);
  EXPECT_NE(message(Write("a\xff", 1)).find("UTF-8"), std::string::npos);
}

TEST(EngineTest, CancelAndDeadlineFreeEverything) {
  GenerateRequest request = Write("Package: long", 400);
  request.limits.ignore_eos = true;
  // A loaded machine may finish the request before the cancellation gets its turn: then again.
  absl::Status status;
  for (int attempt = 0; attempt < 20 && status.ok(); ++attempt) {
    auto cancelled = std::make_shared<RecordingSink>(true);
    const auto handle = SharedEngine().Generate(request, cancelled);
    ASSERT_TRUE(handle.ok());
    cancelled->WaitForFirstDelta();
    (*handle)->Cancel();
    status = cancelled->Wait().status();
  }
  EXPECT_EQ(status.code(), absl::StatusCode::kCancelled);

  request.deadline = Clock::now() + milliseconds(15);
  auto cut = std::make_shared<RecordingSink>(true);
  ASSERT_TRUE(SharedEngine().Generate(request, cut).ok());
  const auto partial = cut->Wait();
  if (partial.ok()) {
    EXPECT_EQ(partial->sequences[0].finish_reason, FinishReason::kDeadline);
    EXPECT_LT(partial->sequences[0].ids.size(), 400u);
  } else {
    EXPECT_EQ(partial.status().code(), absl::StatusCode::kDeadlineExceeded);
  }
  request.deadline = Clock::now();
  EXPECT_EQ(SharedEngine().GenerateAndWait(request).status().code(),
            absl::StatusCode::kDeadlineExceeded);
  for (int wait = 0; wait < 100 && SharedEngine().Stats("write-en")->used_blocks > 0; ++wait) {
    std::this_thread::sleep_for(milliseconds(10));
  }
  EXPECT_EQ(SharedEngine().Stats("write-en")->used_blocks, 0);
  EXPECT_EQ(SharedEngine().Stats("write-en")->waiting_requests, 0);
}

TEST(EngineTest, SmallCachePreemptsAndStillAnswersAlike) {
  EngineOptions options;
  options.models = {Demo("write-en")};
  options.models[0].cache_bytes = 1;  // raised to what one request of full length needs
  auto small = Engine::Create(options);
  ASSERT_TRUE(small.ok()) << small.status();
  std::vector<std::shared_ptr<RecordingSink>> sinks;
  std::vector<GenerateRequest> requests;
  for (int i = 0; i < 16; ++i) {
    requests.push_back(Write("Package: number" + std::to_string(i) + "\nSynopsis:", 100));
    requests.back().limits.ignore_eos = true;
    sinks.push_back(std::make_shared<RecordingSink>());
    ASSERT_TRUE((*small)->Generate(requests.back(), sinks.back()).ok());
  }
  for (size_t i = 0; i < sinks.size(); ++i) {
    const auto result = sinks[i]->Wait();
    ASSERT_TRUE(result.ok()) << result.status();
    const auto expected = SharedEngine().GenerateAndWait(requests[i]);
    ASSERT_TRUE(expected.ok());
    EXPECT_EQ(result->sequences[0].ids, expected->sequences[0].ids);
  }
  EXPECT_GT((*small)->Stats("write-en")->preemptions, 0u);
}

TEST(EngineTest, SharedBeginningIsComputedOnce) {
  std::string prompt = "Package: shared\nSynopsis:";
  for (int i = 0; i < 60; ++i) prompt += " word" + std::to_string(i);
  const auto first = SharedEngine().GenerateAndWait(Write(prompt, 8));
  ASSERT_TRUE(first.ok()) << first.status();
  const auto second = SharedEngine().GenerateAndWait(Write(prompt, 8));
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_GE(second->usage.cached_tokens, second->usage.prompt_tokens - 17);
  EXPECT_EQ(second->sequences[0].ids, first->sequences[0].ids);
  EXPECT_EQ(second->sequences[0].cumulative_logprob, first->sequences[0].cumulative_logprob);
}

TEST(EngineTest, DrainFinishesWhatRunsAndRefusesTheRest) {
  EngineOptions options;
  options.models = {Demo("write-en")};
  auto engine = Engine::Create(options);
  ASSERT_TRUE(engine.ok()) << engine.status();
  auto sink = std::make_shared<RecordingSink>();
  GenerateRequest request = Write("Package: drain", 200);
  request.limits.ignore_eos = true;
  ASSERT_TRUE((*engine)->Generate(request, sink).ok());
  EXPECT_TRUE((*engine)->Drain(milliseconds(60000)));
  const auto result = sink->Wait();
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->sequences[0].ids.size(), 200u);
  EXPECT_EQ((*engine)->GenerateAndWait(request).status().code(), absl::StatusCode::kUnavailable);
}

TEST(EngineTest, DestructionAnswersWhatStillRuns) {
  EngineOptions options;
  options.models = {Demo("write-en")};
  auto engine = Engine::Create(options);
  ASSERT_TRUE(engine.ok()) << engine.status();
  auto sink = std::make_shared<RecordingSink>();
  GenerateRequest request = Write("Package: end", 400);
  request.limits.ignore_eos = true;
  ASSERT_TRUE((*engine)->Generate(request, sink).ok());
  engine->reset();
  EXPECT_EQ(sink->Wait().status().code(), absl::StatusCode::kCancelled);
}

TEST(EngineTest, FullQueueRefusesAtOnce) {
  EngineOptions options;
  options.models = {Demo("write-en")};
  options.models[0].max_queued_requests = 4;
  options.models[0].max_sequences = 1;
  auto engine = Engine::Create(options);
  ASSERT_TRUE(engine.ok()) << engine.status();
  GenerateRequest request = Write("Package: queue", 300);
  request.limits.ignore_eos = true;
  std::vector<std::shared_ptr<RecordingSink>> sinks;
  int refused = 0;
  for (int i = 0; i < 12; ++i) {
    auto sink = std::make_shared<RecordingSink>();
    const auto handle = (*engine)->Generate(request, sink);
    if (handle.ok()) {
      sinks.push_back(sink);
    } else {
      EXPECT_EQ(handle.status().code(), absl::StatusCode::kResourceExhausted);
      ++refused;
    }
  }
  EXPECT_GE(refused, 7);
  for (const auto& sink : sinks) EXPECT_TRUE(sink->Wait().ok());
}

TEST(EngineTest, NamesTheModelAndTheFaultWhenLoadingFails) {
  EngineOptions options;
  options.models = {Demo("write-en")};
  options.models[0].folder += "-missing";
  const auto engine = Engine::Create(options);
  ASSERT_FALSE(engine.ok());
  EXPECT_NE(std::string(engine.status().message()).find("model 'write-en'"), std::string::npos);
}

}  // namespace
}  // namespace beamline
