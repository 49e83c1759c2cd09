// Several replicas of a model whose devices break: the others go on, what nobody has seen anything
// of is begun again, and the pool becomes whole.
#include "engine/serving/replica_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "engine/serving/entrance.h"
#include "kernels/cpu/memory_counts.h"
#include "tests/engine/late_replica.h"
#include "tests/sanitized.h"
#include "tests/thread_limit.h"

namespace beamline::replica_pool_test {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using testing::HasSubstr;

constexpr std::chrono::seconds kWhole(15);  // within which a pool is whole again
constexpr std::chrono::seconds kLong(60);

bool Eventually(std::chrono::seconds within, const std::function<bool()>& condition) {
  const auto until = steady_clock::now() + within;
  while (!condition() && steady_clock::now() < until) std::this_thread::sleep_for(milliseconds(2));
  return condition();
}

class ReplicaPoolTest : public testing::Test {
 protected:
  ~ReplicaPoolTest() override {
    entrance_.Close();
    if (pool_ != nullptr) pool_->Stop(absl::CancelledError("the test is over"));
  }

  void Start(int num_replicas, bool on_gpu = false) {
    backends_.resize(static_cast<size_t>(num_replicas));
    auto pool = ReplicaPool::Create(
        {.num_replicas = num_replicas,
         .load = [this, on_gpu](int number) { return Load(number, on_gpu); },
         .restart = {.first = milliseconds(10), .longest = milliseconds(40), .most_failures = 4}});
    ASSERT_TRUE(pool.ok()) << pool.status();
    pool_ = *std::move(pool);
    pool_->Listen([this](const ReplicaChange& change) {
      std::lock_guard lock(mutex_);
      changes_.push_back(change);
    });
    pool_->ListenForEnd([this](const ModelInfo&, const absl::Status&) { ++ends_; });
  }

  std::shared_ptr<RequestHandle> Submit(GenerateRequest request,
                                        std::shared_ptr<RecordingSink> sink) {
    auto handle = entrance_.Accept<GenerateIntake>(std::move(request), std::move(sink),
                                                   {pool_, Ticket(pool_->tickets())});
    EXPECT_TRUE(handle.ok()) << handle.status();
    return handle.ok() ? *std::move(handle) : nullptr;
  }
  absl::StatusOr<GenerateResult> Ask(const GenerateRequest& request) {
    auto sink = std::make_shared<RecordingSink>();
    Submit(request, sink);
    return sink->Wait();
  }
  static GenerateRequest Short(int number) {
    GenerateRequest request = Write("Package: lib" + std::to_string(number) + "\nVersion:", 4);
    request.limits.ignore_eos = true;
    return request;
  }
  static GenerateRequest Long() {
    GenerateRequest request = Write("Package: a", kSanitized ? 100 : 400);
    request.limits.ignore_eos = true;
    return request;
  }

  void Break(int replica, int64_t after_reads = 0) {
    std::lock_guard lock(mutex_);
    backends_[static_cast<size_t>(replica)]->BreakAfter(after_reads);
  }
  int NumUp() const {
    return static_cast<int>(
        std::ranges::count(pool_->Replicas(), ReplicaPhase::kUp, &ReplicaInfo::phase));
  }
  ModelStats Stats() const {
    ModelStats stats;
    pool_->AddCounters(stats);
    pool_->AddState(stats);
    return stats;
  }
  // The replica that computes something.
  int Busy() const {
    const ModelStats stats = Stats();
    const auto most = std::ranges::max_element(stats.replicas, {}, [this](const auto& state) {
      const auto replica = pool_->replica(state.replica);
      return replica == nullptr ? -1 : replica->stats().work.requests();
    });
    return most->replica;
  }
  absl::Status Restart(int replica, milliseconds grace) {
    return pool_->Restart(replica, steady_clock::now() + grace, [] { return false; });
  }

  absl::StatusOr<std::unique_ptr<LoadedModel>> Load(int number, bool on_gpu) {
    if (loads_fail_) return absl::ResourceExhaustedError("no memory for it");
    ModelOptions options = Demo("write-en");
    options.device = "cpu";
    options.max_sequences = 64;
    options.cache_bytes = 64 << 20;
    auto model = LoadLate(options);
    model->on_gpu = on_gpu;
    std::lock_guard lock(mutex_);
    backends_[static_cast<size_t>(number)] = static_cast<LateBackend*>(model->backend.get());
    return model;
  }

  std::mutex mutex_;  // guards backends_ and changes_
  std::vector<LateBackend*> backends_;
  std::vector<ReplicaChange> changes_;
  std::atomic<int> ends_ = 0;
  std::atomic<bool> loads_fail_ = false;
  std::shared_ptr<ReplicaPool> pool_;
  Entrance entrance_{1};
};

TEST_F(ReplicaPoolTest, BothAnswerAndAlike) {
  Start(2);
  const auto expected = Ask(Short(0));
  ASSERT_TRUE(expected.ok()) << expected.status();
  std::vector<std::shared_ptr<RecordingSink>> sinks;
  for (int i = 0; i < 20; ++i) {
    sinks.push_back(std::make_shared<RecordingSink>());
    Submit(Short(0), sinks.back());
  }
  for (const auto& sink : sinks) {
    const auto answer = sink->Wait();
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_EQ(answer->sequences[0].ids, expected->sequences[0].ids);
  }
  for (int i = 0; i < 2; ++i) EXPECT_GT(pool_->replica(i)->stats().generated_tokens.load(), 0u);
  EXPECT_EQ(Stats().generated_tokens, 21u * 4u);
}

// A replica dies under 500 requests, again and again.
TEST_F(ReplicaPoolTest, FaultsUnderLoadLoseNobodyAndHeal) {
  constexpr int kRounds = kSanitized ? 3 : 20;
  constexpr int kRequests = kSanitized ? 60 : 500;
  constexpr int kPrompts = 10;
  Start(2);
  std::vector<TokenIds> expected;
  for (int i = 0; i < kPrompts; ++i) {
    const auto answer = Ask(Short(i));
    ASSERT_TRUE(answer.ok()) << answer.status();
    expected.push_back(answer->sequences[0].ids);
  }
  int num_streams_cut = 0;
  for (int round = 0; round < kRounds; ++round) {
    SCOPED_TRACE(round);
    Break(round % 2, 1 + round * 7 % 11);
    std::vector<std::shared_ptr<RecordingSink>> sinks;
    for (int i = 0; i < kRequests; ++i) {
      sinks.push_back(std::make_shared<RecordingSink>(/*stream=*/i % 4 == 0));
      Submit(Short(i % kPrompts), sinks.back());
    }
    for (int i = 0; i < kRequests; ++i) {
      const auto answer = sinks[static_cast<size_t>(i)]->Wait();
      if (answer.ok()) {
        ASSERT_EQ(answer->sequences[0].ids, expected[static_cast<size_t>(i % kPrompts)]);
        if (i % 4 == 0) {
          ASSERT_EQ(sinks[static_cast<size_t>(i)]->ids(), answer->sequences[0].ids);
        }
        continue;
      }
      ASSERT_TRUE(absl::IsUnavailable(answer.status())) << answer.status();
      ASSERT_FALSE(sinks[static_cast<size_t>(i)]->ids().empty());  // else another had begun it anew
      ++num_streams_cut;
    }
    ASSERT_TRUE(Eventually(kWhole, [&] {
      const auto broken = static_cast<size_t>(round % 2);
      if (pool_->Replicas()[broken].restarts == round / 2 + 1 && NumUp() == 2) return true;
      Ask(Short(0)).status().IgnoreError();  // it may have had too little to do to break
      return false;
    }));
  }
  EXPECT_GT(Stats().rerun, 0u);
  EXPECT_LT(num_streams_cut, kRounds * kRequests / 4);
  EXPECT_EQ(ends_, 0);
  EXPECT_TRUE(pool_->tickets().WaitForNone(kLong));
  EXPECT_EQ(pool_->waiting().count(), 0);
}

TEST_F(ReplicaPoolTest, AStreamThatHasBegunIsNotBegunAgain) {
  Start(2);
  auto sink = std::make_shared<RecordingSink>(/*stream=*/true);
  Submit(Long(), sink);
  sink->WaitForFirstDelta();
  Break(Busy());
  const auto answer = sink->Wait();
  EXPECT_TRUE(absl::IsUnavailable(answer.status())) << answer.status();
  EXPECT_TRUE(answer.status().GetPayload(kReplicaEndedPayload).has_value());
  EXPECT_EQ(Stats().rerun, 0u);
  EXPECT_TRUE(Ask(Short(0)).ok());  // the other one, or the same anew
}

TEST_F(ReplicaPoolTest, WhatIsBegunAgainStaysCancelled) {
  Start(2);
  auto sink = std::make_shared<RecordingSink>();
  const auto handle = Submit(Long(), sink);
  ASSERT_TRUE(Eventually(kLong, [&] { return Stats().running_sequences > 0; }));
  const int busy = Busy();
  handle->Cancel();
  Break(busy);
  EXPECT_TRUE(absl::IsCancelled(sink->Wait().status()));
}

TEST_F(ReplicaPoolTest, AnAloneReplicaTellsToComeAgain) {
  Start(1);
  ASSERT_TRUE(Ask(Short(0)).ok());
  Break(0);
  const absl::Status status = Ask(Short(0)).status();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_TRUE(status.GetPayload(kReplicaEndedPayload).has_value());
  ASSERT_TRUE(Eventually(kWhole, [&] { return NumUp() == 1; }));
  EXPECT_TRUE(Ask(Short(0)).ok());
  // A replica answers before its change is told.
  ASSERT_TRUE(Eventually(kWhole, [&] {
    std::lock_guard lock(mutex_);
    return changes_.size() == 3;
  }));
  std::lock_guard lock(mutex_);
  EXPECT_EQ(changes_[0].phase, ReplicaPhase::kFailed);
  EXPECT_TRUE(changes_[0].will_restart);
  EXPECT_FALSE(changes_[0].model_can_answer);
  EXPECT_EQ(changes_[1].phase, ReplicaPhase::kRestarting);
  EXPECT_EQ(changes_[2].phase, ReplicaPhase::kUp);
  EXPECT_TRUE(changes_[2].model_can_answer);
}

// A GPU whose context is broken serves nobody in this process any more.
TEST_F(ReplicaPoolTest, AGpuStaysFailed) {
  Start(2, /*on_gpu=*/true);
  Break(0);
  Break(1);
  const absl::Status status = Ask(Short(0)).status();  // and at the other one
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_FALSE(status.GetPayload(kReplicaEndedPayload).has_value());
  EXPECT_EQ(NumUp(), 0);
  EXPECT_EQ(Stats().rerun, 1u);
  EXPECT_EQ(ends_, 1);
  EXPECT_EQ(std::string(pool_->status().message()), std::string(status.message()));
  pool_->ListenForEnd([this](const ModelInfo&, const absl::Status&) { ends_ += 10; });
  EXPECT_EQ(ends_, 11);  // at once
  std::lock_guard lock(mutex_);
  for (const ReplicaChange& change : changes_) EXPECT_FALSE(change.will_restart);
}

TEST_F(ReplicaPoolTest, ALoadThatFailsIsTriedAgainAndGivenUp) {
  Start(1);
  loads_fail_ = true;
  Break(0);
  EXPECT_FALSE(Ask(Short(0)).ok());
  ASSERT_TRUE(Eventually(kLong, [&] { return ends_ == 1; }));
  EXPECT_THAT(std::string(pool_->status().message()), HasSubstr("no memory for it"));
  EXPECT_FALSE(pool_->status().GetPayload(kReplicaEndedPayload).has_value());
  loads_fail_ = false;
  EXPECT_TRUE(Restart(0, milliseconds(0)).ok());  // somebody has looked after it
  EXPECT_TRUE(Ask(Short(0)).ok());
}

TEST_F(ReplicaPoolTest, ARestartLetsAReplicaFinish) {
  Start(2);
  std::vector<std::shared_ptr<RecordingSink>> sinks;
  for (int i = 0; i < 6; ++i) {
    sinks.push_back(std::make_shared<RecordingSink>(/*stream=*/true));
    Submit(Long(), sinks.back());
  }
  for (const auto& sink : sinks) sink->WaitForFirstDelta();
  const absl::Status status = Restart(0, kLong);
  EXPECT_TRUE(status.ok()) << status;
  for (const auto& sink : sinks) EXPECT_TRUE(sink->Wait().ok());
  EXPECT_EQ(pool_->Replicas()[0].restarts, 1);
  EXPECT_EQ(pool_->Replicas()[1].restarts, 0);
  EXPECT_EQ(Stats().rerun, 0u);
  EXPECT_EQ(NumUp(), 2);
}

TEST_F(ReplicaPoolTest, ARestartWithoutGraceMovesWhatNobodyHasSeen) {
  Start(2);
  std::vector<std::shared_ptr<RecordingSink>> sinks;
  for (int i = 0; i < 6; ++i) {
    sinks.push_back(std::make_shared<RecordingSink>());
    Submit(Long(), sinks.back());
  }
  ASSERT_TRUE(Eventually(kLong, [&] { return Stats().running_sequences > 0; }));
  ASSERT_TRUE(Restart(Busy(), milliseconds(0)).ok());
  const auto first = sinks[0]->Wait();
  ASSERT_TRUE(first.ok()) << first.status();
  for (size_t i = 1; i < sinks.size(); ++i) {
    const auto answer = sinks[i]->Wait();
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_EQ(answer->sequences[0].ids, first->sequences[0].ids);
  }
  EXPECT_GT(Stats().rerun, 0u);
}

TEST_F(ReplicaPoolTest, ARestartWithoutAThreadFailsAlone) {
  Start(2);
  {
    const ThreadLimit limit(0);
    const absl::Status status = Restart(0, milliseconds(0));
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
    EXPECT_TRUE(Ask(Short(0)).ok());
  }
  EXPECT_TRUE(Restart(0, milliseconds(0)).ok());
  EXPECT_EQ(NumUp(), 2);
}

TEST_F(ReplicaPoolTest, RestartsThatCannotBeAreRefused) {
  Start(2);
  EXPECT_EQ(Restart(2, milliseconds(0)).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(Restart(-1, milliseconds(0)).code(), absl::StatusCode::kNotFound);
  auto sink = std::make_shared<RecordingSink>(/*stream=*/true);
  Submit(Long(), sink);
  sink->WaitForFirstDelta();
  const int busy = Busy();
  auto draining = std::async(std::launch::async, [&] { return Restart(busy, kLong); });
  ASSERT_TRUE(Eventually(kLong, [&] { return NumUp() == 1; }));
  EXPECT_THAT(std::string(Restart(1 - busy, milliseconds(0)).message()),
              HasSubstr("is the only one that can answer"));
  EXPECT_TRUE(sink->Wait().ok());
  EXPECT_TRUE(draining.get().ok());
}

TEST_F(ReplicaPoolTest, AllReplicasOrNone) {
  const int64_t before = cpu::MemoryCounts::ProcessBytes();
  backends_.resize(2);
  const auto pool = ReplicaPool::Create(
      {.num_replicas = 2,
       .load = [this](int number) -> absl::StatusOr<std::unique_ptr<LoadedModel>> {
         if (number == 1) return absl::ResourceExhaustedError("no memory for the second");
         return Load(number, false);
       }});
  EXPECT_EQ(pool.status(), absl::ResourceExhaustedError("no memory for the second"));
  EXPECT_EQ(cpu::MemoryCounts::ProcessBytes(), before);
}

}  // namespace
}  // namespace beamline::replica_pool_test
