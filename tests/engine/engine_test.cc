// The engine over the demo models, in process: streams, limits, cancellation, drain, a tight cache.
#include "engine/api/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/engine/demo_engine.h"

namespace beamline::engine_test {
namespace {

using std::chrono::milliseconds;

TEST(EngineTest, StreamsWhatTheAnswerHolds) {
  for (const Decoding& decoding :
       {Decoding(GreedyOptions()), Decoding(BeamOptions{.width = 4}),
        Decoding(BeamOptions{.width = 6, .num_groups = 3, .diversity_penalty = 0.5f}),
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

TEST(EngineTest, RefusesMoreSequencesThanAGpuCanCount) {
  EngineOptions options;
  options.models = {Demo("write-en")};
  options.models[0].max_sequences = 65536;
  const absl::Status status = Engine::Create(options).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("max_sequences is 65536; accepted: 1 to 65535"),
            std::string::npos)
      << status;
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

TEST(EngineTest, EchoPutsThePromptBeforeTheAnswer) {
  GenerateRequest request = Write("Package: echo", 6);
  const auto plain = SharedEngine().GenerateAndWait(request);
  request.output.echo = true;
  auto sink = std::make_shared<RecordingSink>(/*stream=*/true);
  ASSERT_TRUE(SharedEngine().Generate(request, sink).ok());
  const auto echoed = sink->Wait();
  ASSERT_TRUE(plain.ok() && echoed.ok()) << echoed.status();
  EXPECT_EQ(echoed->sequences[0].text, "Package: echo" + plain->sequences[0].text);
  EXPECT_EQ(sink->text(), echoed->sequences[0].text);
  EXPECT_EQ(sink->ids(), echoed->sequences[0].ids);
  EXPECT_EQ(echoed->usage.generated_tokens, 6);
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
  GenerateRequest outside = Write("", 1);
  outside.prompt = TokenIds{1, 6000};
  EXPECT_NE(message(outside).find("prompt.ids[1] is 6000; accepted: 0 to 5999"), std::string::npos);
  outside.prompt = TokenIds{};
  EXPECT_NE(message(outside).find("prompt.ids is empty"), std::string::npos);
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

  // A loaded machine may let a deadline pass before the first token: then a later one.
  GenerateRequest slow = request;
  slow.decoding = SamplingOptions{.num_sequences = 64};
  absl::StatusOr<GenerateResult> partial = absl::UnknownError("not called");
  for (int ms = 15; ms < 2000 && !partial.ok(); ms *= 2) {
    slow.deadline = Clock::now() + milliseconds(ms);
    auto cut = std::make_shared<RecordingSink>(true);
    ASSERT_TRUE(SharedEngine().Generate(slow, cut).ok());
    partial = cut->Wait();
    if (partial.ok()) break;
    EXPECT_EQ(partial.status().code(), absl::StatusCode::kDeadlineExceeded);
  }
  ASSERT_TRUE(partial.ok()) << partial.status();
  EXPECT_EQ(partial->sequences[0].finish_reason, FinishReason::kDeadline);
  EXPECT_LT(partial->sequences[0].ids.size(), 400u);
  request.deadline = Clock::now();
  EXPECT_EQ(SharedEngine().GenerateAndWait(request).status().code(),
            absl::StatusCode::kDeadlineExceeded);
  // The sinks hear of the end before the statistics do.
  const auto busy = [] {
    const auto stats = SharedEngine().Stats("write-en");
    return stats->used_blocks > 0 || stats->waiting_requests > 0;
  };
  for (int wait = 0; wait < 2000 && busy(); ++wait) std::this_thread::sleep_for(milliseconds(10));
  EXPECT_EQ(SharedEngine().Stats("write-en")->used_blocks, 0);
  EXPECT_EQ(SharedEngine().Stats("write-en")->waiting_requests, 0);
}

TEST(EngineTest, SmallCachePreemptsAndStillAnswersAlike) {
  EngineOptions options = TestEngineOptions();
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

TEST(EngineTest, WithoutThePrefixCacheNothingIsShared) {
  EngineOptions options = TestEngineOptions();
  options.models = {Demo("write-en")};
  options.models[0].prefix_cache = false;
  const auto engine = Engine::Create(options);
  ASSERT_TRUE(engine.ok()) << engine.status();
  std::string prompt = "Package: shared\nSynopsis:";
  for (int i = 0; i < 60; ++i) prompt += " word" + std::to_string(i);
  const auto expected = SharedEngine().GenerateAndWait(Write(prompt, 8));
  ASSERT_TRUE(expected.ok()) << expected.status();
  for (int i = 0; i < 2; ++i) {
    const auto result = (*engine)->GenerateAndWait(Write(prompt, 8));
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(result->usage.cached_tokens, 0);
    EXPECT_EQ(result->sequences[0].ids, expected->sequences[0].ids);
  }
  const auto stats = (*engine)->Stats("write-en");
  EXPECT_EQ(stats->cached_prompt_tokens, 0u);
  EXPECT_EQ(stats->prompt_tokens, 2u * static_cast<uint64_t>(expected->usage.prompt_tokens));
}

TEST(EngineTest, DrainFinishesWhatRunsAndRefusesTheRest) {
  EngineOptions options = TestEngineOptions();
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
  EngineOptions options = TestEngineOptions();
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

// A cache of the least size: what the model's own decoding asks for fits, more is refused in words
// that a client can act on and that tell whose setting it is.
TEST(EngineTest, ASmallCacheHoldsTheModelsOwnDecodingAndNamesItsLimit) {
  EngineOptions options = TestEngineOptions();
  options.models = {Demo("translate-en-de")};
  options.models[0].cache_bytes = 1;
  options.models[0].max_sequences = 1;  // raised to the model's num_beams
  auto small = Engine::Create(options);
  ASSERT_TRUE(small.ok()) << small.status();
  GenerateRequest request;
  request.model = "translate-en-de";
  request.prompt = "Open the file.";
  EXPECT_TRUE((*small)->GenerateAndWait(request).ok());

  options.models[0].max_sequences = 64;
  small->reset();
  small = Engine::Create(options);
  ASSERT_TRUE(small.ok()) << small.status();
  request.decoding = BeamOptions{.width = 16};
  absl::Status status = (*small)->GenerateAndWait(request).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              testing::MatchesRegex("limits.max_new_tokens is not set, which means 511; accepted: "
                                    "1 to [0-9]+ for 16 sequences of this prompt in the model's "
                                    "cache .the operator sets the cache's size, cache_bytes."));
  request.limits.max_new_tokens = 200;
  status = (*small)->GenerateAndWait(request).status();
  EXPECT_THAT(std::string(status.message()),
              testing::StartsWith("limits.max_new_tokens is 200; accepted: 1 to "));
  request.limits.max_new_tokens = 100;
  EXPECT_TRUE((*small)->GenerateAndWait(request).ok());
}

TEST(EngineTest, FullQueueRefusesAtOnce) {
  EngineOptions options = TestEngineOptions();
  options.models = {Demo("write-en")};
  options.models[0].max_queued_requests = 4;
  options.models[0].max_sequences = 1;
  auto engine = Engine::Create(options);
  ASSERT_TRUE(engine.ok()) << engine.status();
  GenerateRequest request = Write("Package: queue", 100);
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
  EngineOptions options = TestEngineOptions();
  options.models = {Demo("write-en")};
  options.models[0].folder += "-missing";
  const auto engine = Engine::Create(options);
  ASSERT_FALSE(engine.ok());
  EXPECT_NE(std::string(engine.status().message()).find("model 'write-en'"), std::string::npos);
}

}  // namespace
}  // namespace beamline::engine_test
