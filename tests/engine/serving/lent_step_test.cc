// Steps of a replica on threads that lend themselves, or wait for the answer.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "base/lent_thread.h"
#include "base/waiting_thread.h"
#include "base/worker_pool.h"
#include "engine/intake/encode_intake.h"
#include "engine/serving/replica.h"
#include "tests/engine/demo_engine.h"
#include "tests/engine/hand_in.h"

namespace beamline::lent_step_test {
namespace {

constexpr std::chrono::seconds kLong(60);

// Where a request was answered, and with what.
class Answer final : public EncodeSink {
 public:
  explicit Answer(WorkerPool* posts_to = nullptr) : posts_to_(posts_to) {}
  void OnFinish(absl::StatusOr<EncodeResult> result) override {
    result_ = std::move(result);
    thread_ = std::this_thread::get_id();
    EXPECT_EQ(calls_.fetch_add(1), 0);
    const auto done = [this] {
      brief_thread_ = std::this_thread::get_id();
      done_.set_value();
    };
    posts_to_ == nullptr ? done() : posts_to_->PostBrief(done);
  }

  bool IsThere() const {
    return future_.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  }
  bool Wait() const { return future_.wait_for(kLong) == std::future_status::ready; }
  bool IsOfThisThread() const { return thread_ == std::this_thread::get_id(); }
  bool IsPostedToThisThread() const { return brief_thread_ == std::this_thread::get_id(); }
  const absl::StatusOr<EncodeResult>& result() const { return result_; }

 private:
  WorkerPool* const posts_to_;
  absl::StatusOr<EncodeResult> result_ = absl::UnknownError("no answer");
  std::thread::id thread_, brief_thread_;
  std::atomic<int> calls_ = 0;
  std::promise<void> done_;
  std::shared_future<void> future_ = done_.get_future().share();
};

// Keeps what is left to threads.
class Kept final : public LentThread::Later {
 public:
  bool Take(LentThread::Work& work) override {
    kept = std::move(work);
    return true;
  }
  LentThread::Work kept;
};

class LentStepTest : public testing::Test {
 protected:
  void Start(ModelOptions options, bool as_on_gpu = false) {
    options.device = "cpu";
    auto model = LoadedModel::Load(options, {.cpu = {.num_threads = 1}});
    ASSERT_TRUE(model.ok()) << model.status();
    (*model)->on_gpu = as_on_gpu;
    replica_ = std::make_shared<Replica>(*std::move(model), nullptr);
  }
  // As steps of such a length show it, from now on. REQUIRES: none was computed.
  void SetRate(double seconds_per_token) {
    constexpr double kTokens = 1e9;
    replica_->stats().rate.Add(kTokens, kTokens * seconds_per_token);
  }
  void Submit(const EncodeRequest& request, std::shared_ptr<Answer> answer) {
    HandIn<EncodeIntake>(request, std::move(answer), tickets_, waiting_, *replica_);
  }
  // The answer was there when the thread had lent itself.
  bool IsAnsweredHere(const EncodeRequest& request, const std::shared_ptr<Answer>& answer) {
    {
      const LentThread lent;
      Submit(request, answer);
    }
    const bool is_there = answer->IsThere();
    EXPECT_TRUE(answer->Wait());
    EXPECT_TRUE(answer->result().ok()) << answer->result().status();
    return is_there && answer->IsOfThisThread();
  }
  // Its thread is asleep then, so that the next request finds it so.
  void WaitUntilOneIsAnsweredHere(const EncodeRequest& request) {
    for (int i = 0; i < 10'000; ++i) {
      if (IsAnsweredHere(request, std::make_shared<Answer>())) return;
      // Else each try might find it awake from the one before, until the rate is that of its steps.
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    FAIL() << "the replica's thread never slept";
  }

  // Until one finds the thread asleep, and its step is left to be done later: that request's
  // answer.
  std::shared_ptr<Answer> SubmitUntilKept(Kept& later) {
    std::shared_ptr<Answer> answer;
    for (int i = 0; i < 10'000 && !later.kept; ++i) {
      if (answer != nullptr) {
        EXPECT_TRUE(answer->Wait());
      }
      answer = std::make_shared<Answer>();
      const LentThread lent(&later);
      Submit(request_, answer);
    }
    return answer;
  }

  // Of many threads that ask again and again, `ask` tells whether the asking thread computed it.
  template <typename Ask>
  void ExpectOneAnswerEach(const Ask& ask) {
    constexpr int kThreads = 4, kRequests = 300;
    std::atomic<int> here = 0;
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&] {
        for (int i = 0; i < kRequests; ++i) here += ask() ? 1 : 0;
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_GT(here, 0);
    EXPECT_TRUE(tickets_.WaitForNone(kLong));
    EXPECT_EQ(waiting_.count(), 0);
    EXPECT_EQ(replica_->stats().work.requests(), 0);
  }

  EncodeRequest request_{.inputs = {TokenIds{2, 9, 3}}};
  TicketCounter tickets_;
  WaitingCounter waiting_;
  std::shared_ptr<Replica> replica_;
};

TEST_F(LentStepTest, AThreadThatLendsItselfComputesWhereTheReplicaSleeps) {
  Start(Demo("embed-en"));
  SetRate(1e-9);
  WaitUntilOneIsAnsweredHere(request_);
  WorkerPool pool(1);
  for (int i = 0; i < 3; ++i) {
    auto answer = std::make_shared<Answer>(&pool);
    EXPECT_TRUE(IsAnsweredHere(request_, answer));
    EXPECT_TRUE(answer->IsPostedToThisThread());
    ASSERT_EQ(answer->result()->embeddings.size(), 1u);
    EXPECT_EQ(answer->result()->embeddings[0].num_tokens, 3);
  }
  auto answer = std::make_shared<Answer>();
  Submit(request_, answer);  // from a thread that does not lend itself
  EXPECT_TRUE(answer->Wait());
  EXPECT_FALSE(answer->IsOfThisThread());
  EXPECT_TRUE(tickets_.WaitForNone(kLong));
  EXPECT_EQ(replica_->stats().work.requests(), 0);
}

TEST_F(LentStepTest, NoThreadIsLentToLongSteps) {
  Start(Demo("embed-en"));
  SetRate(1e-3);
  for (int i = 0; i < 50; ++i) EXPECT_FALSE(IsAnsweredHere(request_, std::make_shared<Answer>()));
}

// Whether the answer was computed by the thread that waited for it.
class WaitingStepTest : public LentStepTest {
 protected:
  bool IsAnsweredToWhoWaits(const EncodeRequest& request, const std::shared_ptr<Answer>& answer) {
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
      if (IsAnsweredToWhoWaits(request_, std::make_shared<Answer>())) return;
    }
    FAIL() << "the replica's thread never slept";
  }
};

TEST_F(WaitingStepTest, AThreadThatWaitsLaunchesStepsOfAGpuHoweverLongTheyTake) {
  Start(Demo("embed-en"), /*as_on_gpu=*/true);
  SetRate(1e-3);
  WaitUntilTheReplicaSleeps();
  for (int i = 0; i < 10; ++i) {
    auto answer = std::make_shared<Answer>();
    EXPECT_TRUE(IsAnsweredToWhoWaits(request_, answer));
    EXPECT_EQ(answer->result()->embeddings[0].num_tokens, 3);
  }
  // One that does not wait launches nothing.
  EXPECT_FALSE(IsAnsweredHere(request_, std::make_shared<Answer>()));
  EXPECT_TRUE(tickets_.WaitForNone(kLong));
}

TEST_F(WaitingStepTest, AThreadThatWaitsLeavesTheHostsLongStepsToTheReplica) {
  Start(Demo("embed-en"));
  SetRate(1e-3);
  for (int i = 0; i < 50; ++i) {
    EXPECT_FALSE(IsAnsweredToWhoWaits(request_, std::make_shared<Answer>()));
  }
}

TEST_F(WaitingStepTest, ManyThreadsThatWaitGetOneAnswerEach) {
  Start(Demo("embed-en"), /*as_on_gpu=*/true);
  WaitUntilTheReplicaSleeps();
  ExpectOneAnswerEach(
      [this] { return IsAnsweredToWhoWaits(request_, std::make_shared<Answer>()); });
}

TEST_F(LentStepTest, NoThreadIsLentBeforeStepsAreMeasured) {
  Start(Demo("embed-en"));
  EXPECT_FALSE(IsAnsweredHere(request_, std::make_shared<Answer>()));
}

TEST_F(LentStepTest, TheReplicasThreadComputesWhatIsLeft) {
  ModelOptions options = Demo("embed-en");
  options.max_sequences = 1;
  Start(options);
  SetRate(1e-9);
  WaitUntilOneIsAnsweredHere(request_);
  EncodeRequest many;
  for (int32_t i = 0; i < 40; ++i) many.inputs.push_back(TokenIds{2, 9 + i, 3});
  auto answer = std::make_shared<Answer>();
  EXPECT_FALSE(IsAnsweredHere(many, answer));  // 40 steps are more than a thread is lent for
  ASSERT_EQ(answer->result()->embeddings.size(), many.inputs.size());
  for (size_t i = 0; i < many.inputs.size(); ++i) {
    EncodeRequest one{.inputs = {many.inputs[i]}};
    auto alone = std::make_shared<Answer>();
    Submit(one, alone);
    ASSERT_TRUE(alone->Wait());
    EXPECT_EQ(alone->result()->embeddings[0].values, answer->result()->embeddings[i].values);
  }
}

TEST_F(LentStepTest, WhatComesUntilTheThreadComputesIsInItsStep) {
  Start(Demo("embed-en"));
  SetRate(1e-9);
  WaitUntilOneIsAnsweredHere(request_);
  Kept later;
  const std::shared_ptr<Answer> first = SubmitUntilKept(later);
  ASSERT_TRUE(later.kept);
  const uint64_t steps = replica_->stats().steps;
  std::vector<std::shared_ptr<Answer>> others;
  for (int i = 0; i < 5; ++i) {
    others.push_back(std::make_shared<Answer>());
    const LentThread lent(&later);
    Submit(request_, others.back());
  }
  EXPECT_FALSE(first->IsThere());
  LentThread::Do(later.kept);
  EXPECT_TRUE(first->IsThere() && first->IsOfThisThread());
  for (const auto& other : others) EXPECT_TRUE(other->IsThere() && other->IsOfThisThread());
  EXPECT_EQ(replica_->stats().steps, steps + 1);
}

TEST_F(LentStepTest, TheReplicasThreadComputesWhatHasBecomeTooMuch) {
  Start(Demo("embed-en"));
  SetRate(1e-6);  // 3 us of the first request
  WaitUntilOneIsAnsweredHere(request_);
  Kept later;
  const std::shared_ptr<Answer> first = SubmitUntilKept(later);
  ASSERT_TRUE(later.kept);
  EncodeRequest many;  // 120 us
  for (int32_t i = 0; i < 40; ++i) many.inputs.push_back(TokenIds{2, 9 + i, 3});
  auto answer = std::make_shared<Answer>();
  Submit(many, answer);
  LentThread::Do(later.kept);
  EXPECT_TRUE(first->Wait() && answer->Wait());
  EXPECT_FALSE(first->IsOfThisThread());
  EXPECT_FALSE(answer->IsOfThisThread());
}

TEST_F(LentStepTest, ManyThreadsThatLendThemselvesGetOneAnswerEach) {
  Start(Demo("embed-en"));
  SetRate(1e-9);
  ExpectOneAnswerEach([this] { return IsAnsweredHere(request_, std::make_shared<Answer>()); });
}

TEST_F(LentStepTest, TheEndComesToWhatRunsOnLentThreads) {
  for (int round = 0; round < 5; ++round) {
    Start(Demo("embed-en"));
    SetRate(1e-9);
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; ++t) {
      threads.emplace_back([&] {
        while (true) {
          auto answer = std::make_shared<Answer>();
          {
            const LentThread lent;
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
}  // namespace beamline::lent_step_test
