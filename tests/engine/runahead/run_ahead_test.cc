// The step loop on a device that is never done when the host is: every step that can be is planned
// and launched before the results of the one before are read.
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/engine/demo_engine.h"
#include "tests/engine/late_replica.h"
#include "tests/golden/golden_rows.h"

namespace beamline::run_ahead_test {
namespace {

using std::chrono::milliseconds;

// Requests of every kind, some of which can only be read step by step.
std::vector<GenerateRequest> MixedRequests(bool with_dependent) {
  std::vector<GenerateRequest> requests;
  for (int i = 0; i < 24; ++i) {
    GenerateRequest request =
        Write("Package: lib" + std::to_string(i % 9) + "\nSynopsis:", 3 + 7 * (i % 6));
    if (i % 4 == 1) request.decoding = SamplingOptions{.seed = 40 + i, .num_sequences = 1 + i % 5};
    if (i % 4 == 2) request.limits.stop = {"s", "the "};
    if (i % 4 == 3) request.limits.ignore_eos = true;
    if (i % 6 == 5) request.output.return_logprobs = true;
    if (with_dependent && i % 5 == 0) request.decoding = BeamOptions{.width = 1 + i % 4};
    if (with_dependent && i % 7 == 0) request.shaping.no_repeat_ngram_size = 2;
    requests.push_back(std::move(request));
  }
  return requests;
}

void ExpectSame(const GenerateResult& actual, const GenerateResult& expected) {
  ASSERT_EQ(actual.sequences.size(), expected.sequences.size());
  for (size_t i = 0; i < actual.sequences.size(); ++i) {
    const GeneratedSequence& a = actual.sequences[i];
    const GeneratedSequence& e = expected.sequences[i];
    EXPECT_EQ(a.ids, e.ids);
    EXPECT_EQ(a.text, e.text);
    EXPECT_EQ(a.finish_reason, e.finish_reason);
    EXPECT_EQ(a.cumulative_logprob, e.cumulative_logprob);
    EXPECT_EQ(a.logprobs.size(), e.logprobs.size());
  }
}

void ExpectAnswersOfTheLoopThatWaits(const std::vector<GenerateRequest>& requests,
                                     const std::vector<std::shared_ptr<RecordingSink>>& sinks) {
  for (size_t i = 0; i < requests.size(); ++i) {
    const auto result = sinks[i]->Wait();
    ASSERT_TRUE(result.ok()) << result.status();
    const auto expected = SharedEngine().GenerateAndWait(requests[i]);
    ASSERT_TRUE(expected.ok()) << expected.status();
    ExpectSame(*result, *expected);
  }
}

TEST(RunAheadTest, AnswersAreThoseOfTheLoopThatWaits) {
  for (const bool with_dependent : {false, true}) {
    // The small pool preempts, also rows whose last token nobody has read yet.
    for (const int32_t cache_blocks : {0, 28}) {
      if (kSanitized && with_dependent && cache_blocks == 0) continue;
      LateReplica replica("write-en", cache_blocks);
      const std::vector<GenerateRequest> requests = MixedRequests(with_dependent);
      std::vector<std::shared_ptr<RecordingSink>> sinks;
      for (size_t i = 0; i < requests.size(); ++i) {
        sinks.push_back(std::make_shared<RecordingSink>());
        replica.Submit(requests[i], sinks.back());
        if (i % 3 == 0) std::this_thread::sleep_for(milliseconds(1));
      }
      ExpectAnswersOfTheLoopThatWaits(requests, sinks);
      EXPECT_TRUE(replica.WaitForAll());
      EXPECT_GT(replica.backend().num_filled(), with_dependent ? 0 : 50);
      if (cache_blocks > 0) {
        EXPECT_GT(replica.stats().preemptions.load(), 0u);
      }
    }
  }
}

TEST(RunAheadTest, EncoderDecoderModels) {
  LateReplica replica("translate-en-de");
  std::vector<std::shared_ptr<RecordingSink>> sinks;
  const auto golden = GoldenRows("translate.jsonl");
  for (int i = 0; i < 12; ++i) {
    sinks.push_back(std::make_shared<RecordingSink>());
    replica.Submit(Translate(golden[i]["text"], GreedyOptions()), sinks.back());
  }
  for (int i = 0; i < 12; ++i) {
    const auto result = sinks[i]->Wait();
    ASSERT_TRUE(result.ok()) << result.status();
    const auto expected =
        SharedEngine().GenerateAndWait(Translate(golden[i]["text"], GreedyOptions()));
    ASSERT_TRUE(expected.ok()) << expected.status();
    ExpectSame(*result, *expected);
  }
  EXPECT_GT(replica.backend().num_filled(), 50);
}

// What is asked around a search leaves it one that the device goes on with by itself.
TEST(RunAheadTest, ASearchWithItsPromptsLogprobsAndAnEcho) {
  LateReplica replica("write-en");
  GenerateRequest request = Write("Package: libahead\nSynopsis:", 24);
  request.decoding = BeamOptions{.width = 4};
  request.limits.ignore_eos = true;
  request.output.prompt_logprobs = 2;
  request.output.echo = true;
  const auto sink = std::make_shared<RecordingSink>();
  replica.Submit(request, sink);
  const auto result = sink->Wait();
  ASSERT_TRUE(result.ok()) << result.status();
  const auto expected = SharedEngine().GenerateAndWait(request);
  ASSERT_TRUE(expected.ok()) << expected.status();
  ExpectSame(*result, *expected);
  EXPECT_EQ(result->prompt_logprobs.size(), expected->prompt_logprobs.size());
  EXPECT_GT(replica.backend().num_reordered(), 10);
}

// Reading takes the host as long as launching: meanwhile the device need not wait.
TEST(RunAheadTest, ADeviceThatWaitsGetsItsNextStepFirst) {
  LateReplica replica("write-en");
  replica.backend().WaitForTheHost();
  const GenerateRequest request = Write("Package: libwait\nSynopsis:", 24);
  const auto sink = std::make_shared<RecordingSink>();
  replica.Submit(request, sink);
  const auto result = sink->Wait();
  ASSERT_TRUE(result.ok()) << result.status();
  const auto expected = SharedEngine().GenerateAndWait(request);
  ASSERT_TRUE(expected.ok()) << expected.status();
  ExpectSame(*result, *expected);
  EXPECT_GE(replica.backend().num_filled(),
            static_cast<int64_t>(result->sequences[0].ids.size()) - 1);
}

// The device orders the beams' tables before anybody has read which ones go on.
TEST(RunAheadTest, BeamsAreThoseOfTheLoopThatWaits) {
  for (const char* model : {"translate-en-de", "write-en"}) {
    const bool translates = std::string(model) == "translate-en-de";
    // The small pool preempts, also searches whose beams nobody has read yet.
    for (const int32_t cache_blocks : {0, 48}) {
      LateReplica replica(model, cache_blocks);
      const auto golden = GoldenRows("translate.jsonl");
      std::vector<GenerateRequest> requests;
      for (int i = 0; i < (kSanitized ? 14 : 20); ++i) {
        BeamOptions options{.width = 2 + i % 7, .num_sequences = 1 + i % 2};
        options.length_penalty = i % 3 == 0 ? 0.6f : 1.0f;
        if (i % 5 == 1) options.early_stopping = EarlyStopping::kEager;
        GenerateRequest request =
            translates ? Translate(golden[i]["text"], options)
                       : Write("Package: lib" + std::to_string(i) + "\nSynopsis:", 5 + 4 * (i % 9));
        request.decoding = options;
        // Some searches have edits that do not depend on tokens, some that do, and greedy company.
        if (i % 6 == 2) request.limits.min_new_tokens = 4;
        if (i % 6 == 3) request.output.return_logprobs = true;
        if (translates) request.limits.max_new_tokens = 40;
        if (i % 10 == 7) {
          // Nobody runs ahead while it is there.
          request.shaping.no_repeat_ngram_size = 3;
          request.limits.max_new_tokens = 6;
        }
        if (i % 7 == 6) request.decoding = GreedyOptions();
        requests.push_back(std::move(request));
      }
      std::vector<std::shared_ptr<RecordingSink>> sinks;
      for (const GenerateRequest& request : requests) {
        sinks.push_back(std::make_shared<RecordingSink>());
        replica.Submit(request, sinks.back());
      }
      ExpectAnswersOfTheLoopThatWaits(requests, sinks);
      EXPECT_TRUE(replica.WaitForAll());
      EXPECT_GT(replica.backend().num_reordered(), 50);
      if (cache_blocks > 0) {
        EXPECT_GT(replica.stats().preemptions.load(), 0u);
      }
    }
  }
}

TEST(RunAheadTest, StreamsSameText) {
  LateReplica replica("write-en");
  auto sink = std::make_shared<RecordingSink>(/*stream=*/true);
  const GenerateRequest request = Write("Package: stream\nSynopsis:", 40);
  replica.Submit(request, sink);
  const auto result = sink->Wait();
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(sink->text(), result->sequences[0].text);
  EXPECT_EQ(sink->ids(), result->sequences[0].ids);
}

// A block that was filled with a token nobody had read yet can be found as a prefix afterwards.
TEST(RunAheadTest, SharesWhatItGenerated) {
  LateReplica replica("write-en");
  GenerateRequest first = Write("Package: prefix\nSynopsis:", 60);
  first.limits.ignore_eos = true;
  first.output.echo = true;
  auto sink = std::make_shared<RecordingSink>();
  replica.Submit(first, sink);
  const auto whole = sink->Wait();
  ASSERT_TRUE(whole.ok()) << whole.status();
  const TokenIds& ids = whole->sequences[0].ids;

  GenerateRequest second = Write("", 4);
  second.prompt = ids;
  sink = std::make_shared<RecordingSink>();
  replica.Submit(second, sink);
  const auto rest = sink->Wait();
  ASSERT_TRUE(rest.ok()) << rest.status();
  EXPECT_GE(rest->usage.cached_tokens, static_cast<int32_t>(ids.size()) - 17);
  const auto expected = SharedEngine().GenerateAndWait(second);
  ASSERT_TRUE(expected.ok());
  ExpectSame(*rest, *expected);
}

TEST(RunAheadTest, CancellationsAndDeadlinesLeaveNothingBehind) {
  LateReplica replica("write-en");
  std::mt19937 random(7);
  std::vector<GenerateRequest> requests = MixedRequests(/*with_dependent=*/true);
  std::vector<std::shared_ptr<RecordingSink>> sinks;
  std::vector<std::shared_ptr<Cancellation>> cancels;
  for (GenerateRequest& request : requests) {
    if (random() % 3 == 0) request.deadline = Clock::now() + milliseconds(random() % 20);
    sinks.push_back(std::make_shared<RecordingSink>(random() % 2 == 0));
    cancels.push_back(replica.Submit(request, sinks.back()));
  }
  for (const auto& cancellation : cancels) {
    if (random() % 3 == 0) cancellation->Cancel();
    std::this_thread::sleep_for(milliseconds(random() % 3));
  }
  for (const auto& sink : sinks) sink->Wait().IgnoreError();
  EXPECT_TRUE(replica.WaitForAll());
  for (int wait = 0; wait < 1000 && replica.stats().used_blocks.load() != 0; ++wait) {
    std::this_thread::sleep_for(milliseconds(10));
  }
  EXPECT_EQ(replica.stats().used_blocks.load(), 0);
  EXPECT_EQ(replica.stats().running_sequences.load(), 0);
  EXPECT_EQ(replica.waiting().count(), 0);
}

}  // namespace
}  // namespace beamline::run_ahead_test
