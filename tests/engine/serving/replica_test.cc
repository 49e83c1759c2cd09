// A replica of a demo model, without the engine around it.
#include "engine/serving/replica.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "base/worker_pool.h"
#include "engine/intake/encode_intake.h"
#include "engine/intake/generate_intake.h"
#include "tests/engine/demo_engine.h"
#include "tests/engine/hand_in.h"
#include "tests/engine/late_replica.h"

namespace beamline::replica_test {
namespace {

class CountingObserver : public EngineObserver {
 public:
  void OnStep(const std::string& model, const StepReport& report) override {
    if (model == expected_model) ++steps;
    tokens += report.num_tokens;
  }
  std::string expected_model;
  std::atomic<int> steps = 0, tokens = 0;
};

class ReplicaTest : public testing::Test {
 protected:
  void Start(const std::string& name) {
    ModelOptions options = Demo(name);
    options.device = "cpu";
    auto model = LoadedModel::Load(options, {.cpu = {.num_threads = 1}});
    ASSERT_TRUE(model.ok()) << model.status();
    observer_.expected_model = name;
    replica_ = std::make_unique<Replica>(*std::move(model), &observer_);
  }
  // Returns the request's cancellation.
  std::shared_ptr<Cancellation> Submit(const GenerateRequest& request,
                                       std::shared_ptr<RecordingSink> sink) {
    return HandIn<GenerateIntake>(request, std::move(sink), tickets_, waiting_, *replica_);
  }
  bool AllAnswered() { return tickets_.WaitForNone(std::chrono::seconds(60)); }

  TicketCounter tickets_;
  WaitingCounter waiting_;
  CountingObserver observer_;
  std::unique_ptr<Replica> replica_;
};

TEST_F(ReplicaTest, AnswersAndCounts) {
  Start("write-en");
  GenerateRequest request = Write("", 5);
  request.prompt = TokenIds{10, 11, 12, 13};
  request.limits.ignore_eos = true;
  auto sink = std::make_shared<RecordingSink>();
  Submit(request, sink);
  const auto result = sink->Wait();
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->sequences[0].ids.size(), 5u);
  ASSERT_TRUE(AllAnswered());
  replica_.reset();  // every step has been reported then
  EXPECT_EQ(observer_.steps, 5);
  EXPECT_EQ(observer_.tokens, 4 + 4);
}

TEST_F(ReplicaTest, StatisticsReturnToNothing) {
  Start("write-en");
  auto sink = std::make_shared<RecordingSink>();
  Submit(Write("Package: a", 5), sink);
  EXPECT_TRUE(sink->Wait().ok());
  ASSERT_TRUE(AllAnswered());
  const auto holds_something = [this] {
    const ModelStats stats = replica_->stats().Read();
    return stats.used_blocks > 0 || stats.running_sequences > 0;
  };
  for (int i = 0; i < 1000 && holds_something(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));  // they follow the answer
  }
  const ModelStats stats = replica_->stats().Read();
  EXPECT_EQ(waiting_.count(), 0);
  EXPECT_EQ(stats.running_sequences, 0);
  EXPECT_EQ(stats.used_blocks, 0);
  EXPECT_EQ(stats.total_blocks, replica_->model().info.cache_blocks);
  EXPECT_EQ(stats.cancelled, 0u);
}

TEST_F(ReplicaTest, TheEndCancelsWhatRunsAndWhatWaits) {
  Start("write-en");
  GenerateRequest request = Write("Package: a", 400);
  request.limits.ignore_eos = true;
  request.decoding = SamplingOptions{.num_sequences = 64};
  auto running = std::make_shared<RecordingSink>(/*stream=*/true);
  Submit(request, running);
  running->WaitForFirstDelta();
  std::vector<std::shared_ptr<RecordingSink>> waiting;
  for (int i = 0; i < 8; ++i) {
    waiting.push_back(std::make_shared<RecordingSink>());
    Submit(request, waiting.back());
  }
  replica_.reset();
  EXPECT_TRUE(absl::IsCancelled(running->Wait().status()));
  for (const auto& sink : waiting) EXPECT_TRUE(absl::IsCancelled(sink->Wait().status()));
  EXPECT_TRUE(AllAnswered());
}

TEST_F(ReplicaTest, ACancelledRequestEndsAndTheOthersGoOn) {
  Start("write-en");
  GenerateRequest request = Write("Package: a", 300);
  request.limits.ignore_eos = true;
  request.decoding = SamplingOptions{.num_sequences = 64};
  auto cancelled = std::make_shared<RecordingSink>(/*stream=*/true);
  const auto cancellation = Submit(request, cancelled);
  auto other = std::make_shared<RecordingSink>();
  Submit(Write("Package: b", 5), other);
  cancelled->WaitForFirstDelta();
  cancellation->Cancel();
  EXPECT_TRUE(absl::IsCancelled(cancelled->Wait().status()));
  EXPECT_TRUE(other->Wait().ok());
  ASSERT_TRUE(AllAnswered());
  EXPECT_EQ(replica_->stats().cancelled, 1u);
}

TEST_F(ReplicaTest, AnEncodersInputsAreAnsweredTogether) {
  Start("embed-en");
  EncodeRequest request;
  request.inputs = {TokenIds{2, 9, 3}, TokenIds{2, 9, 10, 11, 3}};
  auto sink = std::make_shared<RecordingEncodeSink>();
  HandIn<EncodeIntake>(request, sink, tickets_, waiting_, *replica_);
  const auto result = sink->Wait();
  ASSERT_TRUE(result.ok()) << result.status();
  ASSERT_EQ(result->embeddings.size(), 2u);
  EXPECT_EQ(result->embeddings[0].num_tokens, 3);
  EXPECT_EQ(result->embeddings[1].num_tokens, 5);
  ASSERT_TRUE(AllAnswered());
  replica_.reset();
  EXPECT_EQ(observer_.steps, 1);
  EXPECT_EQ(observer_.tokens, 8);
}

// Inputs of 16 tokens.
EncodeRequest Inputs(const std::string& client, size_t count) {
  EncodeRequest request;
  request.client = client;
  request.inputs.assign(count, TokenIds(16, 9));
  return request;
}
// As if its steps had taken a second a token, whatever they take from now on.
void LetSeemSlow(Replica& replica) {
  constexpr double kTokens = 1e9;
  replica.stats().rate.Add(kTokens, kTokens);
}

TEST_F(ReplicaTest, StepsOfAnEncoderAreShortWhileSeveralClientsAsk) {
  Start("embed-en");
  LetSeemSlow(*replica_);
  // How many steps a request has.
  const auto steps_of = [&](const std::string& client, size_t inputs) {
    const uint64_t before = replica_->stats().steps;
    auto sink = std::make_shared<RecordingEncodeSink>();
    HandIn<EncodeIntake>(Inputs(client, inputs), sink, tickets_, waiting_, *replica_);
    const auto result = sink->Wait();
    EXPECT_TRUE(result.ok()) << result.status();
    EXPECT_TRUE(AllAnswered());
    for (const Embedding& embedding : result->embeddings) {
      EXPECT_EQ(embedding.values, result->embeddings[0].values);
    }
    return replica_->stats().steps - before;
  };
  EXPECT_LE(steps_of("a", 40), 1u);  // alone; a step is counted just after its last answer
  // Within a second of another client's request, if this machine gets there.
  uint64_t most = 0;
  for (int i = 0; i < 100 && most < 3; ++i) {
    steps_of("a", 1);
    most = std::max(most, steps_of("b", 40));  // 256, 256 and 128 tokens
  }
  EXPECT_GE(most, 3u);
}

TEST(LateReplicaTest, StepsOfAnEncoderAreWholeOnAnotherDevice) {
  LateReplica late("embed-en");
  LetSeemSlow(late.replica());
  for (const char* client : {"a", "b", "a", "b"}) {
    auto sink = std::make_shared<RecordingEncodeSink>();
    late.Submit(Inputs(client, 40), sink);
    ASSERT_TRUE(sink->Wait().ok());
  }
  ASSERT_TRUE(late.WaitForAll());
  late.pool().Stop(absl::CancelledError("the steps have been counted then"));
  EXPECT_EQ(late.stats().steps, 4u);
}

// Posts brief work and other work at its answer, and keeps the threads that ran them.
class PostingSink final : public EncodeSink {
 public:
  explicit PostingSink(WorkerPool& pool) : pool_(pool) {}
  void OnFinish(absl::StatusOr<EncodeResult> result) override {
    EXPECT_TRUE(result.ok()) << result.status();
    answered_ = std::this_thread::get_id();
    pool_.PostBrief([this] { brief_.set_value(std::this_thread::get_id()); });
    pool_.Post([this] { other_.set_value(std::this_thread::get_id()); });
  }

  // Neither stays with a thread that sleeps.
  void Wait() {
    auto brief = brief_.get_future(), other = other_.get_future();
    constexpr std::chrono::seconds kLong(60);
    ASSERT_EQ(brief.wait_for(kLong), std::future_status::ready);
    ASSERT_EQ(other.wait_for(kLong), std::future_status::ready);
    EXPECT_EQ(brief.get(), answered_);
    EXPECT_NE(other.get(), answered_);
  }

 private:
  WorkerPool& pool_;
  std::thread::id answered_;
  std::promise<std::thread::id> brief_, other_;
};

TEST_F(ReplicaTest, CarriesOutBriefWorkOfItsSinksBeforeItSleeps) {
  Start("embed-en");
  EncodeRequest request;
  request.inputs = {TokenIds{2, 9, 3}};
  WorkerPool pool(1);
  for (int i = 0; i < 3; ++i) {
    auto sink = std::make_shared<PostingSink>(pool);
    HandIn<EncodeIntake>(request, sink, tickets_, waiting_, *replica_);
    sink->Wait();
  }
}

// Posts at each delta, as whoever writes streams does.
class PostingStreamSink final : public GenerateSink {
 public:
  PostingStreamSink(WorkerPool& pool, int num_deltas) : pool_(pool), left_(num_deltas) {}
  bool wants_deltas() const override { return true; }
  void OnDelta(GenerateDelta) override {
    pool_.Post([this] {
      if (--left_ == 0) all_.set_value();
    });
  }
  void OnFinish(absl::StatusOr<GenerateResult>) override {}
  bool Wait() {
    return all_.get_future().wait_for(std::chrono::seconds(60)) == std::future_status::ready;
  }

 private:
  WorkerPool& pool_;
  std::atomic<int> left_;
  std::promise<void> all_;
};

TEST_F(ReplicaTest, HandsOverWhatIsPostedWhileItRuns) {
  Start("write-en");
  GenerateRequest request = Write("", 200);
  request.prompt = TokenIds{10, 11, 12, 13};
  request.limits.ignore_eos = true;
  auto pool = std::make_unique<WorkerPool>(1);
  auto sink = std::make_shared<PostingStreamSink>(*pool, 3);  // it goes on behind these
  HandIn<GenerateIntake>(request, sink, tickets_, waiting_, *replica_);
  EXPECT_TRUE(sink->Wait());
  replica_.reset();  // posts no more
  pool.reset();      // uses the sink no more
}

}  // namespace
}  // namespace beamline::replica_test
