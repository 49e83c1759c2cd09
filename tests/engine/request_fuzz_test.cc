// Requests of every kind with ids and options at and beyond their limits: each is answered or
// refused by name, and nothing stops the process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "engine/api/request_limits.h"
#include "tests/engine/decoding/random_options.h"
#include "tests/engine/random_model.h"

namespace beamline::request_fuzz_test {
namespace {

constexpr uint64_t kSeed = 20261122;
constexpr int kRounds = kSanitized ? 15 : 120;
constexpr int kRequestsARound = 16;

template <typename Sink, typename Result>
class PromiseSink : public Sink {
 public:
  void OnFinish(absl::StatusOr<Result> result) override { promise_.set_value(result.status()); }
  absl::Status Wait() { return promise_.get_future().get(); }

 private:
  std::promise<absl::Status> promise_;
};
using EncodeStatusSink = PromiseSink<EncodeSink, EncodeResult>;
using ScoreStatusSink = PromiseSink<ScoreSink, ScoreResult>;

// Values of requests: mostly sensible, sometimes at a limit, sometimes beyond it.
class OddValues {
 public:
  explicit OddValues(uint64_t seed) : random_(seed) {}

  Random& random() { return random_; }
  bool Rarely() { return random_.Chance(0.03); }
  // From low to high, or just outside, or anything.
  int32_t Int(int32_t low, int32_t high) {
    if (!Rarely())
      return random_.Chance(0.2) ? (random_.Chance(0.5) ? low : high) : random_.Int(low, high);
    const int32_t odd[] = {
        low - 1, high + 1, std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max(),
        0,       -1};
    return odd[random_.Int(0, 5)];
  }
  float Float(float low, float high) {
    if (!Rarely()) return random_.Chance(0.2) ? high : random_.Float(low, high);
    const float odd[] = {low,
                         -high,
                         std::numeric_limits<float>::quiet_NaN(),
                         std::numeric_limits<float>::infinity(),
                         1e-45f,
                         3e38f};
    return odd[random_.Int(0, 5)];
  }
  int32_t Id() { return Int(0, random_.Chance(0.02) ? 130 : 60); }
  TokenIds Ids(int32_t most) {
    TokenIds ids(random_.Int(0, most));
    for (int32_t& id : ids) id = Id();
    return ids;
  }
  std::string Text() {
    static const std::vector<std::string> kParts = {
        "a",   "the ",   "<late>",    "bcd",   " ",    "\n",
        "<b>", "\u00e9", "\u20ac is", ">>x<<", "\xff", std::string(1, '\0')};
    std::string text;
    const bool valid = !Rarely();
    for (int32_t i = random_.Int(0, Rarely() ? 200 : 12); i > 0; --i) {
      text += kParts[random_.Int(0, static_cast<int32_t>(kParts.size()) - (valid ? 3 : 1))];
    }
    return text;
  }
  Prompt AnyPrompt() {
    if (random_.Chance(0.4)) return Text();
    return Ids(Rarely() ? 90 : 20);
  }

 private:
  Random random_;
};

Decoding OddDecoding(OddValues& odd) {
  Random& random = odd.random();
  switch (random.Int(0, 3)) {
    case 0:
      return std::monostate();
    case 1:
      return GreedyOptions();
    case 2: {
      SamplingOptions sampling;
      if (random.Chance(0.5)) sampling.temperature = odd.Float(0.01f, 2.0f);
      if (random.Chance(0.5)) sampling.top_k = odd.Int(0, 70);
      if (random.Chance(0.5)) sampling.top_p = odd.Float(0.01f, 1.0f);
      if (random.Chance(0.3)) sampling.min_p = odd.Float(0.0f, 1.0f);
      if (random.Chance(0.3)) sampling.typical_p = odd.Float(0.01f, 1.0f);
      if (random.Chance(0.5)) sampling.num_sequences = odd.Int(1, random.Chance(0.1) ? 64 : 4);
      return sampling;
    }
    default: {
      BeamOptions beam;
      beam.num_groups = random.Chance(0.3) ? odd.Int(1, 3) : 1;
      // Odd values are the largest integers, too.
      const int64_t whole_groups = int64_t{beam.num_groups} * odd.Int(1, 4);
      beam.width = random.Chance(0.1) ? odd.Int(1, 64) : static_cast<int32_t>(whole_groups);
      if (random.Chance(0.5)) beam.num_sequences = odd.Int(1, beam.width);
      if (random.Chance(0.5)) beam.length_penalty = odd.Float(-10.0f, 10.0f);
      if (random.Chance(0.5)) beam.early_stopping = static_cast<EarlyStopping>(random.Int(0, 2));
      beam.diversity_penalty = odd.Float(0.0f, 3.0f);
      return beam;
    }
  }
}

LimitOptions OddLimits(OddValues& odd) {
  Random& random = odd.random();
  LimitOptions limits;
  if (random.Chance(0.9)) limits.max_new_tokens = odd.Int(1, random.Chance(0.1) ? 63 : 12);
  if (random.Chance(0.3)) limits.min_new_tokens = odd.Int(0, 8);
  for (int32_t i = random.Chance(0.3) ? odd.Int(0, 16) : 0; i > 0 && i < 20; --i) {
    limits.stop.push_back(random.Chance(0.9) ? odd.Text()
                                             : std::string(odd.Int(1, 256) & 511, 'a'));
  }
  if (random.Chance(0.2)) limits.stop_token_ids = odd.Ids(random.Chance(0.2) ? 257 : 3);
  limits.ignore_eos = random.Chance(0.3);
  limits.include_stop = random.Chance(0.5);
  return limits;
}

ShapingOptions OddShaping(OddValues& odd) {
  Random& random = odd.random();
  ShapingOptions shaping;
  if (random.Chance(0.3)) shaping.repetition_penalty = odd.Float(0.01f, 10.0f);
  if (random.Chance(0.2)) shaping.presence_penalty = odd.Float(-2.0f, 2.0f);
  if (random.Chance(0.2)) shaping.frequency_penalty = odd.Float(-2.0f, 2.0f);
  if (random.Chance(0.3)) shaping.no_repeat_ngram_size = odd.Int(0, 5);
  for (int32_t i = random.Int(0, 3); i > 0; --i) {
    shaping.logit_bias.emplace_back(odd.Id(), odd.Float(-100.0f, 100.0f));
  }
  for (int32_t i = random.Chance(0.3) ? random.Int(1, 4) : 0; i > 0; --i) {
    shaping.bad_words.push_back(odd.Ids(4));
  }
  if (random.Chance(0.1)) shaping.bad_words.push_back(odd.Text());
  if (random.Chance(0.2)) shaping.suppress_tokens = odd.Ids(random.Chance(0.1) ? 1025 : 60);
  if (random.Chance(0.2)) shaping.forced_eos = odd.Id();
  return shaping;
}

GenerateRequest OddGenerate(OddValues& odd, const std::string& model) {
  Random& random = odd.random();
  GenerateRequest request;
  request.model = model;
  request.prompt = odd.AnyPrompt();
  const bool translates = model.starts_with("marian");
  if (translates ? random.Chance(0.3) : odd.Rarely()) request.target_prefix = odd.AnyPrompt();
  request.decoding = OddDecoding(odd);
  request.limits = OddLimits(odd);
  request.shaping = OddShaping(odd);
  request.output.return_logprobs = random.Chance(0.3);
  if (random.Chance(0.3)) request.output.logprobs = odd.Int(0, 20);
  if (translates ? odd.Rarely() : random.Chance(0.2)) {
    request.output.prompt_logprobs = odd.Int(0, 20);
  }
  request.output.echo = translates ? odd.Rarely() : random.Chance(0.2);
  request.output.skip_special_tokens = random.Chance(0.5);
  request.priority = odd.Int(-100, 100);
  if (random.Chance(0.1)) {
    request.deadline = Clock::now() + std::chrono::milliseconds(random.Int(-5, 20));
  }
  return request;
}

ScoreRequest OddScore(OddValues& odd, const std::string& model) {
  ScoreRequest request;
  request.model = model;
  request.prompt = odd.AnyPrompt();
  for (int32_t i = odd.random().Int(0, odd.Rarely() ? 200 : 5); i > 0; --i) {
    request.continuations.push_back(odd.AnyPrompt());
  }
  request.per_token = odd.random().Chance(0.5);
  return request;
}

EncodeRequest OddEncode(OddValues& odd, const std::string& model) {
  EncodeRequest request;
  request.model = model;
  for (int32_t i = odd.random().Int(0, odd.Rarely() ? 300 : 5); i > 0; --i) {
    request.inputs.push_back(odd.AnyPrompt());
  }
  if (odd.random().Chance(0.5)) request.pooling = static_cast<Pooling>(odd.random().Int(0, 4));
  request.per_token = odd.random().Chance(0.2);
  if (odd.random().Chance(0.5)) request.normalize = odd.random().Chance(0.5);
  if (odd.random().Chance(0.3)) request.dimensions = odd.Int(1, 120);
  request.truncate = static_cast<EncodeTruncation>(odd.random().Int(0, 2));
  if (odd.Rarely()) request.prompt_name = "query";
  return request;
}

class RequestFuzzTest : public ::testing::Test {
 protected:
  void SetUp() override {
    renormalizing_.Change("generation_config.json",
                          {{"renormalize_logits", true}, {"num_beams", 3}, {"min_length", 3}});
    ServeWith(ModelOptions().max_sequences, ModelOptions().max_batch_tokens);
  }

  void ServeWith(int32_t max_sequences, int32_t max_batch_tokens) {
    std::vector<ModelOptions> models = {renormalizing_.Options("marian-target"),
                                        source_.Options("marian-source"), gpt2_.Options("gpt2"),
                                        bert_.Options("bert")};
    for (ModelOptions& model : models) {
      model.max_sequences = max_sequences;
      model.max_batch_tokens = max_batch_tokens;
    }
    auto engine = Serve(models);
    ASSERT_TRUE(engine.ok()) << engine.status();
    engine_ = *std::move(engine);
  }

  void Count(const absl::Status& status) {
    if (status.ok()) ++num_answered_;
    if (absl::IsInvalidArgument(status)) ++num_refused_;
    EXPECT_TRUE(status.ok() || absl::IsInvalidArgument(status) ||
                absl::IsDeadlineExceeded(status) || absl::IsResourceExhausted(status))
        << status;
  }
  // Returns what waits for the answer.
  template <typename Sink, typename Submit>
  std::function<absl::Status()> Start(std::shared_ptr<Sink> sink, const Submit& submit) {
    const auto handle = submit(sink);
    if (!handle.ok()) return [status = handle.status()] { return status; };
    if (odd_.Rarely()) (*handle)->Cancel();
    return [sink] {
      const absl::Status status = sink->Wait();
      return absl::IsCancelled(status) ? absl::OkStatus() : status;
    };
  }
  std::function<absl::Status()> StartAny() {
    static const std::vector<std::string> kModels = {"marian-target", "marian-source", "gpt2",
                                                     "bert"};
    const std::string& model = kModels[odd_.random().Int(0, 3)];
    const int32_t kind = odd_.Rarely()     ? odd_.random().Int(0, 2)
                         : model == "bert" ? 0
                                           : 1 + (odd_.random().Chance(0.2) ? 1 : 0);
    if (kind == 0) {
      return Start(std::make_shared<EncodeStatusSink>(),
                   [&](auto sink) { return engine_->Encode(OddEncode(odd_, model), sink); });
    }
    if (kind == 2) {
      return Start(std::make_shared<ScoreStatusSink>(),
                   [&](auto sink) { return engine_->Score(OddScore(odd_, model), sink); });
    }
    struct GenerateStatusSink : RecordingSink {
      using RecordingSink::RecordingSink;
      absl::Status Wait() { return RecordingSink::Wait().status(); }
    };
    return Start(std::make_shared<GenerateStatusSink>(odd_.random().Chance(0.5)),
                 [&](auto sink) { return engine_->Generate(OddGenerate(odd_, model), sink); });
  }

  void RunRounds(int num_rounds) {
    for (int round = 0; round < num_rounds; ++round) {
      SCOPED_TRACE(round);
      std::vector<std::function<absl::Status()>> waits;
      for (int i = 0; i < kRequestsARound; ++i) waits.push_back(StartAny());
      for (const auto& wait : waits) Count(wait());
    }
  }

  const RandomTranslator renormalizing_{"marian-2x16-target", 61, 97, /*late_id=*/80};
  const RandomTranslator source_{"marian-5x8-deep", 97, 83, /*late_id=*/90};
  const RandomStack gpt2_{"gpt2-3x40", 100, /*with_template=*/false};
  const RandomStack bert_{"bert-3x40", 100, /*with_template=*/true};
  std::unique_ptr<Engine> engine_;
  OddValues odd_{kSeed};
  int num_answered_ = 0;
  int num_refused_ = 0;
};

TEST_F(RequestFuzzTest, EveryRequestIsAnsweredOrRefused) {
  RunRounds(kRounds);
  // Both kinds, in numbers.
  EXPECT_GE(num_answered_, kRounds * kRequestsARound / 4);
  EXPECT_GE(num_refused_, kRounds * kRequestsARound / 10);
}

// What a request may ask for and what a step may hold are different things.
TEST_F(RequestFuzzTest, EveryRequestIsAnsweredOrRefusedWithinSmallSteps) {
  for (const int32_t max_sequences : {1, 2, 5}) {
    SCOPED_TRACE(max_sequences);
    ServeWith(max_sequences, /*max_batch_tokens=*/16);
    RunRounds(kRounds / 4);
  }
  EXPECT_GE(num_answered_, kRounds * kRequestsARound / 10);
}

TEST_F(RequestFuzzTest, AModelWithoutRoomForItsTemplateIsRefused) {
  const LinkedModel model("models/embed-en");
  model.Write("sentence_bert_config.json", {{"max_seq_length", 1}});
  const auto engine = Serve({model.Options("tiny")});
  EXPECT_EQ(engine.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(engine.status().message()),
              testing::EndsWith("the tokenizer's special tokens alone are 2"));
}

// The widest search with stop strings and every stop id: what a backend is asked to find stays
// within what it can.
TEST_F(RequestFuzzTest, TheLargestSearchIsAnswered) {
  GenerateRequest request;
  request.model = "gpt2";
  request.prompt = TokenIds{5};
  request.decoding = BeamOptions{.width = 64, .num_sequences = 64};
  request.limits.max_new_tokens = 3;
  request.limits.stop = {"zz"};
  for (int32_t id = 0; id < static_cast<int32_t>(LimitOf("limits.stop_token_ids").size->max);
       ++id) {
    request.limits.stop_token_ids.push_back(id % 131);
  }
  EXPECT_TRUE(engine_->GenerateAndWait(request).ok());
  request.limits.stop_token_ids.push_back(0);
  EXPECT_TRUE(absl::IsInvalidArgument(engine_->GenerateAndWait(request).status()));
}

}  // namespace
}  // namespace beamline::request_fuzz_test
