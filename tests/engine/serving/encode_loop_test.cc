// Inputs that are longer than a step beside others: whose turn each step is, and how they end.
#include "engine/serving/encode_loop.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "engine/intake/encode_intake.h"
#include "tests/engine/demo_engine.h"
#include "tests/engine/hand_in.h"
#include "tests/engine/late_replica.h"
#include "tests/engine/long_models.h"

namespace beamline::encode_loop_test {
namespace {

// A replica without the engine around it, whose steps a test counts.
class LongReplicaTest : public testing::Test {
 protected:
  static constexpr int32_t kOfStep = 64;

  void SetUp() override {
    ModelOptions options = OptionsOf(model_, kOfStep);
    options.device = "cpu";
    auto loaded = LoadedModel::Load(options, {.cpu = {.num_threads = 1}});
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    replica_ = std::make_unique<Replica>(*std::move(loaded), &observer_);
  }
  // Jobs of clients, from any thread.
  std::shared_ptr<Cancellation> Submit(const std::string& client, std::vector<Prompt> inputs,
                                       std::shared_ptr<EncodeSink> sink,
                                       std::optional<Clock::time_point> deadline = std::nullopt) {
    EncodeRequest request;
    request.model = "model";
    request.client = client;
    request.inputs = std::move(inputs);
    request.deadline = deadline;
    return HandIn<EncodeIntake>(request, std::move(sink), tickets_, waiting_, *replica_);
  }
  std::vector<float> Embed(const TokenIds& ids) {
    auto sink = std::make_shared<RecordingEncodeSink>();
    Submit("again", {ids}, sink);
    const auto result = sink->Wait();
    EXPECT_TRUE(result.ok()) << result.status();
    return result.ok() ? result->embeddings[0].values : std::vector<float>();
  }

  const LongEmbedder model_{"qwen3-6of2x6-embed", 283};
  Ids ids_;
  TicketCounter tickets_;
  WaitingCounter waiting_;
  StepObserver observer_;
  std::unique_ptr<Replica> replica_;
};

// Notes the number of steps that had ended before its answer.
class StepOfAnswer : public EncodeSink {
 public:
  explicit StepOfAnswer(const StepObserver& observer) : observer_(observer) {}
  void OnFinish(absl::StatusOr<EncodeResult> result) override {
    EXPECT_TRUE(result.ok()) << result.status();
    step_.set_value(observer_.steps());
  }
  int Wait() { return step_.get_future().get(); }

 private:
  const StepObserver& observer_;
  std::promise<int> step_;
};

// One comes at the end of each step, from a client of its own: it is in the next step of a batch,
// before which there is one step of the long input at most.
TEST_F(LongReplicaTest, AShortTextWaitsForOneStepOfALongOne) {
  std::vector<std::pair<int, std::shared_ptr<StepOfAnswer>>> shorts;
  const TokenIds short_ids = ids_.Any(5);
  int steps_of_long = 0;
  observer_.on_step = [&](const StepReport& report) {
    if (report.num_tokens != std::ssize(short_ids)) ++steps_of_long;
    if (shorts.size() == 40) return;
    shorts.emplace_back(observer_.steps(), std::make_shared<StepOfAnswer>(observer_));
    Submit("short", {short_ids}, shorts.back().second);
  };
  const auto sink = std::make_shared<RecordingEncodeSink>();
  Submit("long", {ids_.Any(kLongPositions)}, sink);
  ASSERT_TRUE(sink->Wait().ok());
  replica_.reset();
  ASSERT_EQ(shorts.size(), 40u);
  for (const auto& [came, answer] : shorts) EXPECT_LE(answer->Wait() - came, 1);
  EXPECT_GE(steps_of_long, kLongPositions / kOfStep);
  EXPECT_LE(observer_.largest(), kOfStep);
}

// Where texts wait all the time, steps of theirs and of the long input take turns.
TEST_F(LongReplicaTest, TakesTurnsWithTheTextsOfOthers) {
  const int32_t length = 10 * kOfStep;
  std::vector<std::shared_ptr<RecordingEncodeSink>> busy;
  std::promise<void> begin;
  int steps_of_long = 0, steps_in_a_row = 0, most_in_a_row = 0;
  std::atomic<bool> long_is_done = false;
  observer_.on_step = [&](const StepReport& report) {
    if (observer_.steps() == 1) begin.get_future().wait();  // until all have come
    if (long_is_done) return;
    const bool is_batch = report.num_sequences > 1;
    steps_of_long += is_batch ? 0 : 1;
    steps_in_a_row = is_batch ? steps_in_a_row + 1 : 0;
    most_in_a_row = std::max(most_in_a_row, steps_in_a_row);
  };
  const auto add_busy = [&](int count) {
    for (int i = 0; i < count; ++i) {
      busy.push_back(std::make_shared<RecordingEncodeSink>());
      Submit("busy" + std::to_string(i % 3), {ids_.Any(8)}, busy.back());
    }
  };
  class DoneSink : public RecordingEncodeSink {
   public:
    explicit DoneSink(std::atomic<bool>& done) : done_(done) {}
    void OnFinish(absl::StatusOr<EncodeResult> result) override {
      done_ = true;
      RecordingEncodeSink::OnFinish(std::move(result));
    }

   private:
    std::atomic<bool>& done_;
  };
  add_busy(1);
  const auto sink = std::make_shared<DoneSink>(long_is_done);
  Submit("long", {ids_.Any(length)}, sink);
  add_busy(400);
  begin.set_value();
  ASSERT_TRUE(sink->Wait().ok());
  for (const auto& each : busy) EXPECT_TRUE(each->Wait().ok());
  replica_.reset();
  EXPECT_LE(most_in_a_row, 1);
  EXPECT_GE(steps_of_long, 10);
  EXPECT_LE(observer_.largest(), kOfStep);
}

// One after the other, in their order, and each with what a request has besides.
TEST_F(LongReplicaTest, SeveralAreComputedOneAfterTheOther) {
  std::vector<std::vector<Prompt>> inputs;
  std::vector<std::shared_ptr<StepOfAnswer>> order;
  std::vector<std::shared_ptr<RecordingEncodeSink>> sinks;
  for (int i = 0; i < 3; ++i) {
    inputs.push_back({ids_.Any(3), ids_.Any(5 * kOfStep), ids_.Any(9), ids_.Any(2 * kOfStep),
                      ids_.Any(kOfStep)});
    sinks.push_back(std::make_shared<RecordingEncodeSink>());
    order.push_back(std::make_shared<StepOfAnswer>(observer_));
    Submit("client" + std::to_string(i), inputs.back(), sinks.back());
    Submit("alone" + std::to_string(i), {inputs.back()[1]}, order.back());
  }
  int last = 0;
  for (const auto& each : order) {
    const int step = each->Wait();
    EXPECT_GT(step, last);
    last = step;
  }
  for (size_t i = 0; i < sinks.size(); ++i) {
    const auto result = sinks[i]->Wait();
    ASSERT_TRUE(result.ok()) << result.status();
    for (size_t k = 0; k < inputs[i].size(); ++k) {
      EXPECT_EQ(result->embeddings[k].values, Embed(std::get<TokenIds>(inputs[i][k])));
    }
  }
}

TEST_F(LongReplicaTest, IsCancelledBetweenTwoSteps) {
  const TokenIds ids = ids_.Any(kLongPositions);
  std::shared_ptr<Cancellation> cancellation;
  std::promise<void> handed_in;
  observer_.on_step = [&](const StepReport&) {
    if (observer_.steps() == 1) handed_in.get_future().wait();
    if (observer_.steps() == 3) cancellation->Cancel();
  };
  const auto sink = std::make_shared<RecordingEncodeSink>();
  cancellation = Submit("long", {ids}, sink);
  handed_in.set_value();
  const absl::Status status = sink->Wait().status();
  EXPECT_TRUE(absl::IsCancelled(status)) << status;
  EXPECT_TRUE(status.GetPayload(kUsedTokensPayload).has_value());
  const std::vector<float> values = Embed(ids_.Any(3 * kOfStep));
  EXPECT_FALSE(values.empty());
  const TokenIds next = ids_.Any(4 * kOfStep);
  EXPECT_EQ(Embed(next), Embed(next));
  EXPECT_EQ(replica_->stats().Read().cancelled, 1u);
}

TEST_F(LongReplicaTest, ADeadlineEndsItBetweenTwoSteps) {
  const auto deadline = Clock::now() + std::chrono::milliseconds(50);
  observer_.on_step = [&](const StepReport&) {
    if (observer_.steps() == 2) std::this_thread::sleep_until(deadline);
  };
  const auto sink = std::make_shared<RecordingEncodeSink>();
  Submit("long", {ids_.Any(kLongPositions)}, sink, deadline);
  EXPECT_TRUE(absl::IsDeadlineExceeded(sink->Wait().status()));
  EXPECT_FALSE(Embed(ids_.Any(3 * kOfStep)).empty());
}

TEST_F(LongReplicaTest, TheEndOfTheReplicaCancelsIt) {
  std::promise<void> has_begun;
  observer_.on_step = [&](const StepReport&) {
    if (observer_.steps() == 2) has_begun.set_value();
    if (observer_.steps() > 2) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  };
  const auto running = std::make_shared<RecordingEncodeSink>();
  const auto waiting = std::make_shared<RecordingEncodeSink>();
  Submit("long", {ids_.Any(kLongPositions)}, running);
  Submit("long", {ids_.Any(kLongPositions)}, waiting);
  has_begun.get_future().wait();
  replica_.reset();
  EXPECT_TRUE(absl::IsCancelled(running->Wait().status()));
  EXPECT_TRUE(absl::IsCancelled(waiting->Wait().status()));
}

// By a fault that is found between two steps, or when the answer is read.
TEST(LongFaultTest, ADeviceThatBreaksFailsIt) {
  const LongEmbedder model("llama-4of1x6-embed", 67);
  for (const int64_t reads : {-1, 0}) {
    LateReplica replica(OptionsOf(model, 64));
    replica.backend().BreakAfter(reads);
    EncodeRequest request;
    request.model = "model";
    request.inputs = {TokenIds(500, 7)};
    const auto sink = std::make_shared<RecordingEncodeSink>();
    replica.Submit(request, sink);
    const absl::Status status = sink->Wait().status();
    EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  }
}

}  // namespace
}  // namespace beamline::encode_loop_test
