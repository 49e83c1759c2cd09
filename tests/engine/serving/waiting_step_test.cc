// Steps of a replica on threads that wait for the answer.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "base/waiting_thread.h"
#include "engine/intake/encode_intake.h"
#include "engine/serving/replica.h"
#include "tests/engine/demo_engine.h"
#include "tests/engine/hand_in.h"

namespace beamline::waiting_step_test {
namespace {

constexpr std::chrono::seconds kLong(60);

// Where a request was answered, and with what.
class Answer final : public EncodeSink {
 public:
  void OnFinish(absl::StatusOr<EncodeResult> result) override {
    result_ = std::move(result);
    thread_ = std::this_thread::get_id();
    EXPECT_EQ(calls_.fetch_add(1), 0);
    done_.set_value();
  }

  bool IsThere() const {
    return future_.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  }
  bool Wait() const { return future_.wait_for(kLong) == std::future_status::ready; }
  bool IsOfThisThread() const { return thread_ == std::this_thread::get_id(); }
  const absl::StatusOr<EncodeResult>& result() const { return result_; }

 private:
  absl::StatusOr<EncodeResult> result_ = absl::UnknownError("no answer");
  std::thread::id thread_;
  std::atomic<int> calls_ = 0;
  std::promise<void> done_;
  std::shared_future<void> future_ = done_.get_future().share();
};

class WaitingStepTest : public testing::Test {
 protected:
  void Start(ModelOptions options, bool as_on_gpu = false) {
    options.device = "cpu";
    auto model = LoadedModel::Load(options, {.cpu = {.num_threads = 1}});
    ASSERT_TRUE(model.ok()) << model.status();
    (*model)->on_gpu = as_on_gpu;
    replica_ = std::make_shared<Replica>(*std::move(model), nullptr);
  }
  void Submit(const EncodeRequest& request, std::shared_ptr<Answer> answer) {
    HandIn<EncodeIntake>(request, std::move(answer), tickets_, waiting_, *replica_);
  }
  // Whether the thread that waited for the answer computed it.
  bool IsAnsweredHere(const EncodeRequest& request, const std::shared_ptr<Answer>& answer) {
    const auto is_answered = [&answer] { return answer->IsThere(); };
    {
      const WaitingThread waiting(is_answered);
      Submit(request, answer);
    }
    EXPECT_TRUE(answer->Wait());
    EXPECT_TRUE(answer->result().ok()) << answer->result().status();
    return answer->IsOfThisThread();
  }
  // The next request finds its thread asleep.
  void WaitUntilTheReplicaSleeps() {
    for (int i = 0; i < 10'000; ++i) {
      if (IsAnsweredHere(request_, std::make_shared<Answer>())) return;
    }
    FAIL() << "the replica's thread never slept";
  }

  EncodeRequest request_{.inputs = {TokenIds{2, 9, 3}}};
  TicketCounter tickets_;
  WaitingCounter waiting_;
  std::shared_ptr<Replica> replica_;
};

TEST_F(WaitingStepTest, RunsStepsOfAGpuHoweverLongTheyTake) {
  Start(Demo("embed-en"), /*as_on_gpu=*/true);
  WaitUntilTheReplicaSleeps();
  for (int i = 0; i < 10; ++i) {
    auto answer = std::make_shared<Answer>();
    EXPECT_TRUE(IsAnsweredHere(request_, answer));
    EXPECT_EQ(answer->result()->embeddings[0].num_tokens, 3);
  }
  // A thread that does not wait runs nothing.
  auto answer = std::make_shared<Answer>();
  Submit(request_, answer);
  EXPECT_TRUE(answer->Wait());
  EXPECT_FALSE(answer->IsOfThisThread());
  EXPECT_TRUE(tickets_.WaitForNone(kLong));
  EXPECT_EQ(replica_->stats().work.requests(), 0);
}

TEST_F(WaitingStepTest, LeavesTheHostsStepsToTheReplica) {
  Start(Demo("embed-en"));
  for (int i = 0; i < 50; ++i) EXPECT_FALSE(IsAnsweredHere(request_, std::make_shared<Answer>()));
}

TEST_F(WaitingStepTest, ManyThreadsGetOneAnswerEach) {
  Start(Demo("embed-en"), /*as_on_gpu=*/true);
  WaitUntilTheReplicaSleeps();
  constexpr int kThreads = 4, kRequests = 300;
  std::atomic<int> here = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < kRequests; ++i) {
        here += IsAnsweredHere(request_, std::make_shared<Answer>()) ? 1 : 0;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(here, 0);
  EXPECT_TRUE(tickets_.WaitForNone(kLong));
  EXPECT_EQ(waiting_.count(), 0);
  EXPECT_EQ(replica_->stats().work.requests(), 0);
}

TEST_F(WaitingStepTest, ManyInputsAreAnsweredAsEachAlone) {
  ModelOptions options = Demo("embed-en");
  options.max_sequences = 1;
  Start(options, /*as_on_gpu=*/true);
  WaitUntilTheReplicaSleeps();
  EncodeRequest many;
  for (int32_t i = 0; i < 40; ++i) many.inputs.push_back(TokenIds{2, 9 + i, 3});
  auto answer = std::make_shared<Answer>();
  IsAnsweredHere(many, answer);
  ASSERT_EQ(answer->result()->embeddings.size(), many.inputs.size());
  for (size_t i = 0; i < many.inputs.size(); ++i) {
    EncodeRequest one{.inputs = {many.inputs[i]}};
    auto alone = std::make_shared<Answer>();
    Submit(one, alone);
    ASSERT_TRUE(alone->Wait());
    EXPECT_EQ(alone->result()->embeddings[0].values, answer->result()->embeddings[i].values);
  }
}

TEST_F(WaitingStepTest, TheEndComesToWaitingThreads) {
  for (int round = 0; round < 5; ++round) {
    Start(Demo("embed-en"), /*as_on_gpu=*/true);
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; ++t) {
      threads.emplace_back([&] {
        while (true) {
          auto answer = std::make_shared<Answer>();
          const auto is_answered = [&answer] { return answer->IsThere(); };
          {
            const WaitingThread waiting(is_answered);
            Submit(request_, answer);
          }
          ASSERT_TRUE(answer->Wait());
          if (!answer->result().ok()) {
            EXPECT_TRUE(absl::IsCancelled(answer->result().status()));
            return;
          }
        }
      });
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    replica_->Stop();
    for (std::thread& thread : threads) thread.join();  // each has met the end
    EXPECT_TRUE(tickets_.WaitForNone(kLong));
    replica_.reset();
  }
}

}  // namespace
}  // namespace beamline::waiting_step_test
