// The phases of a pool's replicas, when one is loaded once more, and what becomes of requests.
#include "engine/serving/pool_state.h"

#include <gtest/gtest.h>

#include <chrono>
#include <vector>

#include "absl/strings/cord.h"
#include "engine/serving/attempt.h"

namespace beamline::pool_state_test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr uint64_t kSeed = 3;

class PoolStateTest : public testing::Test {
 protected:
  std::optional<int> Choose() {
    std::vector<ReplicaView> views(static_cast<size_t>(state_.size()));
    return state_.Choose(views, {});
  }
  // From the failure to the next load.
  std::optional<milliseconds> Wait(int replica) const {
    const auto at = state_.restart_at(replica);
    if (!at.has_value()) return std::nullopt;
    return std::chrono::duration_cast<milliseconds>(*at - now_);
  }

  PoolState::Time now_{seconds(1000)};
  PoolState state_{2, kSeed, RestartPolicy{}};
};

TEST_F(PoolStateTest, WhoFailsIsPassedOverAndComesBack) {
  state_.Fail(0, /*may_restart=*/true, /*has_worked=*/true, now_);
  EXPECT_EQ(state_.phase(0), ReplicaPhase::kFailed);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(Choose(), 1);
  EXPECT_EQ(state_.NextRestart(), 0);
  EXPECT_EQ(Wait(0), seconds(1));
  state_.BeginRestart(0);
  EXPECT_EQ(state_.NextRestart(), std::nullopt);
  EXPECT_EQ(Choose(), 1);
  state_.EndRestart(0, /*succeeded=*/true, true, now_);
  EXPECT_EQ(state_.restarts(0), 1);
  EXPECT_EQ(state_.num_up(), 2);
}

TEST_F(PoolStateTest, EachFailureInARowWaitsTwiceAsLongUntilItIsGivenUp) {
  state_.Fail(0, true, true, now_);
  for (const int wait_s : {1, 2, 4, 8, 16, 30, 30}) {
    EXPECT_EQ(Wait(0), seconds(wait_s));
    state_.BeginRestart(0);
    state_.EndRestart(0, /*succeeded=*/false, true, now_);
  }
  EXPECT_EQ(state_.phase(0), ReplicaPhase::kFailed);
  EXPECT_EQ(Wait(0), std::nullopt);
  EXPECT_TRUE(state_.has_future());  // the other one
  state_.Fail(1, /*may_restart=*/false, true, now_);
  EXPECT_FALSE(state_.has_future());
  EXPECT_EQ(Choose(), std::nullopt);
}

TEST_F(PoolStateTest, WorkBetweenFailuresBeginsANewRow) {
  for (int i = 0; i < 20; ++i) {
    state_.Fail(0, true, /*has_worked=*/i % 3 == 0, now_);
    EXPECT_EQ(Wait(0), seconds(1 << i % 3));
    state_.BeginRestart(0);
    state_.EndRestart(0, true, true, now_);
  }
}

TEST_F(PoolStateTest, TheOneThatIsDueFirstIsNext) {
  state_.Fail(1, true, true, now_);
  state_.Fail(0, true, true, now_ - milliseconds(1));
  EXPECT_EQ(state_.NextRestart(), 0);
}

TEST_F(PoolStateTest, WhoIsDrainedGetsNothingNew) {
  state_.BeginDrain(1);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(Choose(), 0);
  EXPECT_TRUE(state_.has_future());
  state_.Fail(1, true, true, now_);  // before it has finished
  EXPECT_EQ(state_.phase(1), ReplicaPhase::kFailed);
}

class AttemptTest : public testing::Test {
 protected:
  static absl::Status Ended() {
    absl::Status status = absl::UnavailableError("its device failed");
    status.SetPayload(kReplicaEndedPayload, absl::Cord());
    return status;
  }
  Attempt::Next OnError(Attempt& attempt, absl::Status error, bool cancelled = false) {
    error_ = std::move(error);
    return attempt.OnError(error_, cancelled, now_);
  }

  Clock::time_point now_{seconds(1000)};
  absl::Status error_;
};

TEST_F(AttemptTest, OnlyARequestWhoseReplicaEndedRunsAgainAndOnce) {
  Attempt attempt(std::nullopt);
  EXPECT_EQ(OnError(attempt, absl::UnavailableError("draining")), Attempt::Next::kAnswer);
  EXPECT_EQ(OnError(attempt, absl::InternalError("NaN")), Attempt::Next::kAnswer);
  EXPECT_EQ(OnError(attempt, Ended()), Attempt::Next::kRunAgain);
  EXPECT_EQ(OnError(attempt, Ended()), Attempt::Next::kAnswer);
  EXPECT_EQ(error_, Ended());
}

TEST_F(AttemptTest, WhatHasLeftIsNotSentAgain) {
  Attempt attempt(std::nullopt);
  attempt.HandOut();
  EXPECT_EQ(OnError(attempt, Ended()), Attempt::Next::kAnswer);
  EXPECT_EQ(error_, Ended());
}

TEST_F(AttemptTest, WhoIsCancelledOrTooLateIsToldThat) {
  Attempt cancelled(std::nullopt);
  EXPECT_EQ(OnError(cancelled, Ended(), /*cancelled=*/true), Attempt::Next::kAnswer);
  EXPECT_TRUE(absl::IsCancelled(error_));
  Attempt late(now_);
  EXPECT_EQ(OnError(late, Ended()), Attempt::Next::kAnswer);
  EXPECT_TRUE(absl::IsDeadlineExceeded(error_));
  Attempt in_time(now_ + milliseconds(1));
  EXPECT_EQ(OnError(in_time, Ended()), Attempt::Next::kRunAgain);
}

}  // namespace
}  // namespace beamline::pool_state_test
