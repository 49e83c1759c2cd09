// The parts of the load generator that keep what is under way.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "loadtest/traffic/cancel_timer.h"
#include "loadtest/traffic/outstanding.h"
#include "loadtest/traffic/status_name.h"

namespace beamline::loadtest::traffic_test {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;
using Clock = std::chrono::steady_clock;

class TrafficTest : public testing::Test, public CallObserver {
 protected:
  // A call that never begins.
  class IdleCall final : public Call {
   public:
    using Call::Call;
    void OnEvent(bool) override {}

   private:
    void Launch(v1::Inference::Stub&, grpc::CompletionQueue&) override {}
  };

  Call* Add(uint64_t index) {
    Request request;
    request.index = index;
    return outstanding_.Add(std::make_unique<IdleCall>(std::move(request), clock_, *this));
  }
  void OnDone(Call*) override {}

  RunClock clock_;
  Outstanding outstanding_;
};

TEST_F(TrafficTest, OutstandingCallsAreCancelledByIndexOrAll) {
  Call* const first = Add(1);
  Call* const second = Add(2);
  Call* const third = Add(3);
  outstanding_.Cancel(2);
  outstanding_.Cancel(99);
  EXPECT_FALSE(first->was_cancelled());
  EXPECT_TRUE(second->was_cancelled());
  const auto removed = outstanding_.Remove(third);
  EXPECT_EQ(removed.get(), third);
  outstanding_.CancelAll();
  EXPECT_TRUE(first->was_cancelled());
  EXPECT_FALSE(third->was_cancelled());
}

TEST_F(TrafficTest, WaitingEndsWithTheLastCallOrInTime) {
  Call* const first = Add(1);
  Add(2);
  EXPECT_TRUE(outstanding_.WaitForAtMost(2, Clock::now()));
  EXPECT_FALSE(outstanding_.WaitForAtMost(1, Clock::now() + milliseconds(20)));
  std::thread remover([&] {
    std::this_thread::sleep_for(milliseconds(50));
    outstanding_.Remove(first);
  });
  EXPECT_TRUE(outstanding_.WaitForAtMost(1, Clock::now() + std::chrono::seconds(20)));
  remover.join();
}

TEST_F(TrafficTest, TheTimerCancelsInTheOrderOfTimes) {
  const auto until = [](const Call* call) {
    const auto end = Clock::now() + std::chrono::seconds(20);
    while (!call->was_cancelled() && Clock::now() < end) std::this_thread::yield();
    return call->was_cancelled();
  };
  Call* const soon = Add(1);
  Call* const later = Add(2);
  Call* const never = Add(3);
  const auto start = Clock::now();
  {
    CancelTimer timer(outstanding_);
    timer.CancelAt(start + std::chrono::hours(1), 3);
    timer.CancelAt(start + milliseconds(300), 2);
    timer.CancelAt(start + milliseconds(50), 1);
    EXPECT_TRUE(until(soon));
    EXPECT_GE(Clock::now() - start, milliseconds(50));
    EXPECT_TRUE(until(later));
    EXPECT_GE(Clock::now() - start, milliseconds(300));
  }
  EXPECT_FALSE(never->was_cancelled());
}

TEST(StatusName, NamesEveryCodeOfGrpc) {
  EXPECT_EQ(StatusName(grpc::StatusCode::OK), "OK");
  EXPECT_EQ(StatusName(grpc::StatusCode::INVALID_ARGUMENT), "INVALID_ARGUMENT");
  EXPECT_EQ(StatusName(grpc::StatusCode::UNAUTHENTICATED), "UNAUTHENTICATED");
  EXPECT_EQ(StatusName(static_cast<grpc::StatusCode>(42)), "CODE_42");
  for (int code = 0; code <= 16; ++code) {
    const std::string name = StatusName(static_cast<grpc::StatusCode>(code));
    EXPECT_TRUE(CheckStatusName("--expect-code", name).ok()) << name;
  }
  EXPECT_THAT(std::string(CheckStatusName("--expect-code", "UNAVAILBLE").message()),
              HasSubstr("--expect-code is 'UNAVAILBLE'; accepted: a code of gRPC, as "
                        "RESOURCE_EXHAUSTED; did you mean 'UNAVAILABLE'?"));
}

}  // namespace
}  // namespace beamline::loadtest::traffic_test
