// Models whose stages compute them one behind the other answer as one rank does: every kind of
// decoding, embeddings and scores, alone and on a grid; several steps are under way at a time; and
// when a rank fails, everybody is told. Long because it shows of stages all that
// tensor_parallel_test.cc shows of ranks, and that they compute at the same time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "engine/loading/make_ranks.h"
#include "tests/engine/late_ranks.h"
#include "tests/engine/late_replica.h"
#include "tests/engine/random_model.h"
#include "tests/engine/request_catalogue.h"

namespace beamline::pipeline_parallel_test {
namespace {

using testing::HasSubstr;

// Of a grid, whose ranks add in another order.
constexpr double kScoreTolerance = 1e-4;

std::unique_ptr<Engine> ServeOne(const ModelOptions& model) {
  auto engine = Serve({model});
  EXPECT_TRUE(engine.ok()) << engine.status();
  return engine.ok() ? *std::move(engine) : nullptr;
}

// All at once, on either engine.
void ExpectSameAnswers(const std::vector<GenerateRequest>& requests, Engine& staged, Engine& one,
                       double tolerance = 0.0) {
  const auto actual = RunTogether(requests, staged);
  const auto expected = RunTogether(requests, one);
  for (size_t i = 0; i < requests.size(); ++i) {
    SCOPED_TRACE("request " + std::to_string(i));
    ASSERT_TRUE(actual[i].ok()) << actual[i].status();
    ASSERT_TRUE(expected[i].ok()) << expected[i].status();
    ExpectSameAnswer(*actual[i], *expected[i]);
    ASSERT_EQ(actual[i]->sequences.size(), expected[i]->sequences.size());
    for (size_t s = 0; s < actual[i]->sequences.size(); ++s) {
      EXPECT_EQ(actual[i]->sequences[s].ids, expected[i]->sequences[s].ids);
      EXPECT_NEAR(actual[i]->sequences[s].score, expected[i]->sequences[s].score, tolerance);
    }
  }
}

std::vector<GenerateRequest> RequestsOf(const std::string& model) {
  std::vector<GenerateRequest> requests = RequestsOfEveryKind();
  std::erase_if(requests, [&](const auto& request) { return request.model != model; });
  return requests;
}

TEST(PipelineParallelTest, RequestsOfEveryKindAreAnsweredAsByOneRank) {
  std::vector<std::pair<std::string, int32_t>> models = {
      {"write-en", 5}, {"translate-en-de", 2}, {"write-en", 2}, {"translate-en-de", 7}};
  if (kSanitized) models.resize(2);
  for (const auto& [model, num_stages] : models) {
    SCOPED_TRACE(model + " in " + std::to_string(num_stages) + " stages");
    const auto staged = ServeOne(OnStages(Demo(model), num_stages));
    ASSERT_NE(staged, nullptr);
    std::vector<GenerateRequest> requests = RequestsOf(model);
    // Several of each, so that every lane has its share.
    for (int i = 0; i < (kSanitized ? 1 : 2); ++i) {
      for (const GenerateRequest& request : RequestsOf(model)) requests.push_back(request);
    }
    ExpectSameAnswers(requests, *staged, SharedEngine());
  }
}

TEST(PipelineParallelTest, GridsAnswerAsOneRank) {
  std::vector<std::tuple<std::string, int32_t, int32_t>> models = {
      {"write-en", 2, 3}, {"translate-en-de", 3, 2}, {"translate-en-de", 2, 4}};
  if (kSanitized) models.resize(2);
  for (const auto& [model, num_stages, num_ranks] : models) {
    SCOPED_TRACE(model + " in " + std::to_string(num_stages) + " stages");
    const auto grid = ServeOne(OnStages(Demo(model), num_stages, num_ranks));
    ASSERT_NE(grid, nullptr);
    ExpectSameAnswers(RequestsOf(model), *grid, SharedEngine(), kScoreTolerance);
    EXPECT_THAT(grid->FindModel(model)->device_description,
                HasSubstr(std::to_string(num_stages * num_ranks) + " ranks in " +
                          std::to_string(num_stages) + " stages, each on "));
  }
}

TEST(PipelineParallelTest, GuessedTokensAreAnsweredAsByOneRank) {
  ModelOptions options = OnStages(Demo("write-en"), 3);
  options.speculative_tokens = 6;
  const auto staged = ServeOne(options);
  ASSERT_NE(staged, nullptr);
  std::vector<GenerateRequest> requests;
  for (int i = 0; i < 6; ++i)
    requests.push_back(Write("a a a a a b b b b" + std::to_string(i), 40));
  ExpectSameAnswers(requests, *staged, SharedEngine());
  EXPECT_GT(staged->Stats("write-en")->speculative_proposed, 0u);
}

TEST(PipelineParallelTest, EmbeddingsAreThoseOfOneRank) {
  EncodeRequest request;
  request.model = "embed-en";
  for (int i = 0; i < 20; ++i) {
    std::string text = "How do I install a package";
    for (int word = 0; word < i; ++word) text += " with version " + std::to_string(word * i);
    request.inputs.emplace_back(text);
  }
  for (const int32_t num_stages : {2, 3, 4}) {
    const auto staged = ServeOne(OnStages(Demo("embed-en"), num_stages));
    ASSERT_NE(staged, nullptr);
    for (const bool per_token : {false, true}) {
      request.per_token = per_token;
      const auto actual = staged->EncodeAndWait(request);
      const auto expected = SharedEngine().EncodeAndWait(request);
      ASSERT_TRUE(actual.ok() && expected.ok()) << actual.status() << expected.status();
      for (size_t i = 0; i < request.inputs.size(); ++i) {
        EXPECT_EQ(actual->embeddings[i].values, expected->embeddings[i].values);
      }
    }
  }
}

TEST(PipelineParallelTest, ScoresAreThoseOfOneRank) {
  ScoreRequest request;
  request.model = "write-en";
  request.prompt = "Package: editor\nSynopsis:";
  for (const char* text : {" small text editor", " library", " tools for the console"}) {
    request.continuations.emplace_back(text);
  }
  request.per_token = true;
  const auto staged = ServeOne(OnStages(Demo("write-en"), 2));
  ASSERT_NE(staged, nullptr);
  const auto actual = staged->ScoreAndWait(request);
  const auto expected = SharedEngine().ScoreAndWait(request);
  ASSERT_TRUE(actual.ok() && expected.ok()) << actual.status() << expected.status();
  ASSERT_EQ(actual->scores.size(), expected->scores.size());
  for (size_t i = 0; i < actual->scores.size(); ++i) {
    EXPECT_EQ(actual->scores[i].logprob, expected->scores[i].logprob);
  }
}

// Beginnings that are in the cache of every stage, and too little of it: groups are given up and
// computed anew.
TEST(PipelineParallelTest, ASmallCacheIsSharedByTheLanes) {
  for (const bool prefix_cache : {true, false}) {
    if (kSanitized && !prefix_cache) continue;
    ModelOptions options = OnStages(Demo("write-en"), 3);
    options.cache_bytes = 1;  // the least there can be: one request of full length
    options.prefix_cache = prefix_cache;
    const auto staged = ServeOne(options);
    ASSERT_NE(staged, nullptr);
    std::vector<GenerateRequest> requests;
    std::string beginning = "Package: many\nDescription:";
    for (int i = 0; i < 12; ++i) beginning += " a library of functions";
    for (int i = 0; i < 24; ++i) {
      requests.push_back(Write(beginning + std::string(i % 5, '!'), 20 + i));
      requests.back().limits.ignore_eos = true;
      if (i % 4 == 1) requests.back().decoding = BeamOptions{.width = 3};
      if (i % 4 == 2) requests.back().decoding = SamplingOptions{.seed = 7, .num_sequences = 3};
    }
    ExpectSameAnswers(requests, *staged, SharedEngine());
    EXPECT_GT(staged->Stats("write-en")->preemptions, 0u);
    EXPECT_EQ(staged->Stats("write-en")->cached_prompt_tokens > 0, prefix_cache);
  }
}

TEST(PipelineParallelTest, StepsAreRehearsedByAllStages) {
  const RandomTranslator translator("marian-2x16-target", 61, 97);
  ModelOptions options = OnStages(translator.Options("model"), 2);
  options.max_sequences = 4;
  options.max_batch_tokens = 64;
  options.warm_up = "true";
  const auto staged = ServeOne(options);
  ASSERT_NE(staged, nullptr);
  EXPECT_GT(staged->FindModel("model")->warm_up.num_steps, 0);
  GenerateRequest request;
  request.model = "model";
  request.prompt = TokenIds{5, 9, 13};
  request.decoding = BeamOptions{.width = 3};
  request.limits.max_new_tokens = 8;
  ExpectSameAnswers({request}, *staged, *ServeOne(OnRanks(translator.Options("model"), 1)));
}

TEST(PipelineParallelTest, MoreStagesThanLayersAreRefused) {
  const auto refusal = [](const ModelOptions& options) { return Serve({options}).status(); };
  const absl::Status layers = refusal(OnStages(Demo("write-en"), 6));
  EXPECT_EQ(layers.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(layers.message()),
              HasSubstr("pipeline_parallel is 6, more than the 5 layers of the model; accepted: 1 "
                        "to 5"));
  EXPECT_THAT(std::string(refusal(OnStages(Demo("translate-en-de"), 8)).message()),
              HasSubstr("pipeline_parallel is 8, more than the 7 layers of the model"));
  EXPECT_THAT(std::string(refusal(OnStages(Demo("embed-en"), 9)).message()),
              HasSubstr("pipeline_parallel is 9; accepted: 1 to 8"));
}

// Requests that end at any time, cancelled or by their deadline, leave the others alone.
TEST(PipelineParallelTest, RequestsThatEndEarlyLeaveTheOthersAlone) {
  const auto staged = ServeOne(OnStages(Demo("write-en"), 4));
  ASSERT_NE(staged, nullptr);
  std::vector<GenerateRequest> requests;
  std::vector<std::shared_ptr<RecordingSink>> sinks;
  std::vector<std::shared_ptr<RequestHandle>> handles;
  for (int i = 0; i < 32; ++i) {
    requests.push_back(Write("Package: lib" + std::to_string(i) + "\nSynopsis:", 30 + i % 7));
    requests.back().limits.ignore_eos = true;
    if (i % 4 == 1) requests.back().decoding = BeamOptions{.width = 4};
    if (i % 8 == 3) requests.back().deadline = Clock::now() + std::chrono::milliseconds(15);
    sinks.push_back(std::make_shared<RecordingSink>(/*stream=*/i % 8 == 7));
    auto handle = staged->Generate(requests.back(), sinks.back());
    ASSERT_TRUE(handle.ok()) << handle.status();
    handles.push_back(*std::move(handle));
  }
  for (int i = 7; i < 32; i += 8) {
    sinks[i]->WaitForFirstDelta();
    handles[i]->Cancel();
  }
  for (int i = 0; i < 32; ++i) {
    SCOPED_TRACE(i);
    const auto actual = sinks[i]->Wait();
    if (i % 4 == 3) continue;  // whatever it has
    const auto expected = SharedEngine().GenerateAndWait(requests[i]);
    ASSERT_TRUE(actual.ok() && expected.ok()) << actual.status() << expected.status();
    ExpectSameAnswer(*actual, *expected);
  }
  EXPECT_EQ(staged->Stats("write-en")->used_blocks, 0);
}

// Lets the last stage begin a step, or a piece of a batch, when the first one is at a later one,
// and remembers that it was. Gives up for the step after a while: others may not have come yet.
class Gate {
 public:
  void FirstStageBegins() { ++begun_; }
  void LastStageWorks() {
    const int later = finished_ + 2;
    if (passed_ || std::exchange(waited_for_, later) == later) return;
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(200);
    while (begun_ < later && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::yield();
    }
    passed_ = begun_ >= later;
  }
  void LastStageEnds() { ++finished_; }
  bool passed() const { return passed_; }

 private:
  std::atomic<int> begun_ = 0;
  std::atomic<bool> passed_ = false;
  int finished_ = 0, waited_for_ = 0;  // of the last stage's thread
};

class GatedBackend : public LateBackend {
 public:
  // End: the last operation of a step, or of a piece.
  template <typename End>
  GatedBackend(Gate& gate, bool is_first, bool is_last, const End*)
      : LateBackend(1),
        gate_(gate),
        is_first_(is_first),
        is_last_(is_last),
        ends_([](const Operation& operation) {
          return std::holds_alternative<const End*>(operation);
        }) {}
  bool Records() const override { return false; }

 private:
  void Compute(const Operation& operation) override {
    if (is_first_ && std::holds_alternative<const EmbedParams*>(operation)) {
      gate_.FirstStageBegins();
    }
    if (is_last_) gate_.LastStageWorks();
    LateBackend::Compute(operation);
    if (is_last_ && ends_(operation)) gate_.LastStageEnds();
  }

  Gate& gate_;
  const bool is_first_, is_last_;
  bool (*const ends_)(const Operation& operation);
};

// The first stage is at another lane's step while the last one is in the middle of one, which with
// one step at a time it would never be.
TEST(PipelineParallelTest, StagesComputeAtTheSameTime) {
  for (const int num_stages : {2, 3}) {
    Gate gate;
    LateRanks ranks("write-en", 1, num_stages, [&](int rank) {
      return std::make_unique<GatedBackend>(gate, rank == 0, rank + 1 == num_stages,
                                            static_cast<const TopCandidatesParams*>(nullptr));
    });
    std::vector<GenerateRequest> requests;
    std::vector<std::shared_ptr<RecordingSink>> sinks;
    for (int i = 0; i < 6; ++i) {
      requests.push_back(Write("Package: lib" + std::to_string(i) + "\nSynopsis:", 30));
      requests.back().limits.ignore_eos = true;
      sinks.push_back(std::make_shared<RecordingSink>());
      ranks.Submit(requests.back(), sinks.back());
    }
    for (size_t i = 0; i < sinks.size(); ++i) {
      const auto actual = sinks[i]->Wait();
      const auto expected = SharedEngine().GenerateAndWait(requests[i]);
      ASSERT_TRUE(actual.ok() && expected.ok()) << actual.status() << expected.status();
      ExpectSameAnswer(*actual, *expected);
    }
    EXPECT_TRUE(gate.passed());
  }
}

// So do an encoder's, on pieces of one batch.
TEST(PipelineParallelTest, StagesOfAnEncoderComputeAtTheSameTime) {
  Gate gate;
  LateRanks ranks("embed-en", 1, 3, [&](int rank) {
    return std::make_unique<GatedBackend>(gate, rank == 0, rank == 2,
                                          static_cast<const NormParams*>(nullptr));
  });
  EncodeRequest request;
  request.model = "embed-en";
  for (int i = 0; i < 9; ++i) request.inputs.emplace_back("text " + std::string(1 + i, 'a'));
  auto sink = std::make_shared<RecordingEncodeSink>();
  ranks.Submit(request, sink);
  const auto actual = sink->Wait();
  const auto expected = SharedEngine().EncodeAndWait(request);
  ASSERT_TRUE(actual.ok() && expected.ok()) << actual.status() << expected.status();
  for (size_t i = 0; i < request.inputs.size(); ++i) {
    EXPECT_EQ(actual->embeddings[i].values, expected->embeddings[i].values);
  }
  EXPECT_TRUE(gate.passed());
}

// `fail` makes the replica's ranks fail at some time soon.
template <typename Fail>
void ExpectEveryRequestFails(int num_ranks, int num_stages, const Fail& fail,
                             const std::string& reason) {
  LateRanks ranks("write-en", num_ranks, num_stages);
  std::vector<std::shared_ptr<RecordingSink>> sinks;
  fail(ranks);
  for (int i = 0; i < 12; ++i) {
    sinks.push_back(std::make_shared<RecordingSink>());
    GenerateRequest request = Write("Package: lib" + std::to_string(i) + "\nSynopsis:", 60);
    request.limits.ignore_eos = true;
    if (i % 4 == 1) request.decoding = SamplingOptions{.seed = 3, .num_sequences = 3};
    if (i % 4 == 2) request.decoding = BeamOptions{.width = 3};
    ranks.Submit(request, sinks.back());
  }
  for (const auto& sink : sinks) {
    const absl::Status status = sink->Wait().status();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("model 'write-en' cannot answer"));
    EXPECT_THAT(std::string(status.message()), HasSubstr(reason));
  }
  auto late = std::make_shared<RecordingSink>();
  ranks.Submit(Write("late", 3), late);
  EXPECT_EQ(late->Wait().status().code(), absl::StatusCode::kUnavailable);
  EXPECT_FALSE(ranks.replica().fault().status().ok());
}

TEST(PipelineParallelTest, ABrokenStageEndsEveryRequestOfItsModel) {
  for (const int64_t reads : {0, 1, 5, 13}) {
    if (kSanitized && reads > 1) continue;
    ExpectEveryRequestFails(
        1, 3, [&](LateRanks& ranks) { ranks.backend(2).BreakAfter(reads); },
        "the late device broke");
  }
}

// It leaves in the middle of a step, while the others wait for it or have steps behind it.
TEST(PipelineParallelTest, ARankWithoutMemoryEndsTheWaitOfTheOthers) {
  ExpectEveryRequestFails(
      1, 3, [](LateRanks& ranks) { ranks.backend(2).RefuseReadBack(); }, "no memory to read");
  ExpectEveryRequestFails(
      3, 2, [](LateRanks& ranks) { ranks.backend(4).RefuseReadBack(); }, "no memory to read");
}

TEST(PipelineParallelTest, AnAbortOfAnyConnectionEndsEveryRequest) {
  for (const int rank : {0, 5}) {
    ExpectEveryRequestFails(
        3, 2,
        [&](LateRanks& ranks) {
          ranks.group().communicator(rank).Abort(absl::UnavailableError("the link is down"));
        },
        "the link is down");
    ExpectEveryRequestFails(
        3, 2,
        [&](LateRanks& ranks) {
          ranks.group().stages(rank)->Abort(absl::UnavailableError("the link is down"));
        },
        "the link is down");
  }
}

TEST(PipelineParallelTest, EncodersFailAsGeneratorsDo) {
  for (const bool before : {false, true}) {
    LateRanks ranks("embed-en", 2, 2);
    if (before) {
      ranks.group().stages(3)->Abort(absl::UnavailableError("the late device broke"));
    } else {
      ranks.backend(2).BreakAfter(0);
    }
    EncodeRequest request;
    request.model = "embed-en";
    for (int i = 0; i < 6; ++i) request.inputs.emplace_back("text " + std::to_string(i));
    auto sink = std::make_shared<RecordingEncodeSink>();
    ranks.Submit(request, sink);
    const absl::Status status = sink->Wait().status();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("the late device broke"));
  }
}

}  // namespace
}  // namespace beamline::pipeline_parallel_test
