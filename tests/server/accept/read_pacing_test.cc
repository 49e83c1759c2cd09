// When a thread that reads calls looks for what has come.
#include "server/accept/read_pacing.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <thread>

#include "server/accept/unique_fd.h"

namespace beamline::read_pacing_test {
namespace {

using Clock = ReadPace::Clock;
using std::chrono::microseconds;
using std::chrono::milliseconds;

constexpr Clock::time_point kStart = Clock::time_point(std::chrono::hours(1));
constexpr Clock::duration kAtOnce = Clock::duration::zero();

TEST(ReadPaceTest, LooksAreAPeriodApartWhileItLasts) {
  ReadPace pace;
  pace.Look(kStart);
  EXPECT_EQ(pace.Wait(kStart), kAtOnce);  // nobody has asked for it
  pace.Extend(kStart);
  EXPECT_EQ(pace.Wait(kStart), ReadPace::kPeriod);
  EXPECT_EQ(pace.Wait(kStart + microseconds(400)), ReadPace::kPeriod - microseconds(400));
  // What took a period or longer is followed by a look at once.
  EXPECT_EQ(pace.Wait(kStart + ReadPace::kPeriod), kAtOnce);
  EXPECT_EQ(pace.Wait(kStart + ReadPace::kPeriod + microseconds(1)), kAtOnce);
  pace.Look(kStart + milliseconds(4));
  EXPECT_EQ(pace.Wait(kStart + milliseconds(4)), ReadPace::kPeriod);
  EXPECT_EQ(pace.Wait(kStart + ReadPace::kLasts), kAtOnce);
  pace.Extend(kStart + milliseconds(4));
  EXPECT_GT(pace.Wait(kStart + ReadPace::kLasts), kAtOnce);
}

TEST(ReadPaceTest, NoWaitIsLongerThanAPeriod) {
  ReadPace pace;
  pace.Extend(kStart);
  pace.Look(kStart + std::chrono::hours(1));  // another thread's, whose clock was read later
  EXPECT_EQ(pace.Wait(kStart), ReadPace::kPeriod);
}

// Something that is always there to be found.
class ReadPacingTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(epoll_.valid());
    ASSERT_TRUE(ready_.valid());
    epoll_event event{};
    event.events = EPOLLIN;
    ASSERT_EQ(epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, ready_.get(), &event), 0);
  }
  // By the program's epoll_wait; when it has found it.
  Clock::time_point Look(int timeout_ms) const {
    epoll_event found{};
    EXPECT_EQ(epoll_wait(epoll_.get(), &found, 1, timeout_ms), 1);
    return Clock::now();
  }
  // Whether one of many looks comes within a period of the one before; `is_paced`: the thread is.
  bool LooksSoon(int timeout_ms, bool is_paced) const {
    for (int i = 0; i < 200; ++i) {
      const Clock::time_point before = Clock::now();
      if (is_paced) PaceReads(before);
      if (Look(timeout_ms) - before < ReadPace::kPeriod / 2) return true;
    }
    return false;
  }

  UniqueFd epoll_{epoll_create1(EPOLL_CLOEXEC)};
  UniqueFd ready_{eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK)};
};

// A thread that has to wait for a core here may find the pace ended.
TEST_F(ReadPacingTest, APacedThreadLooksOnceInAPeriod) {
  int paced = 0;
  std::thread([&] {
    PaceReads(Clock::now());
    Look(0);
    for (int i = 0; i < 100; ++i) {
      const Clock::time_point before = Clock::now();
      PaceReads(before);
      // The look before may have been a little earlier than now.
      if (Look(1000) - before >= ReadPace::kPeriod - milliseconds(1)) ++paced;
    }
  }).join();
  EXPECT_GE(paced, 50);
}

TEST_F(ReadPacingTest, WhoWaitsForNothingIsNotPaced) {
  std::thread([this] {
    Look(0);
    EXPECT_TRUE(LooksSoon(/*timeout_ms=*/0, /*is_paced=*/true));
  }).join();
}

TEST_F(ReadPacingTest, ThePaceEndsByItself) {
  std::thread([this] {
    PaceReads(Clock::now());
    EXPECT_TRUE(LooksSoon(1000, /*is_paced=*/false));
  }).join();
}

TEST_F(ReadPacingTest, OthersAreNotPaced) {
  std::atomic<bool> ends = false;
  std::thread paced([&] {
    while (!ends) PaceReads(Clock::now());
  });
  std::thread([this] { EXPECT_TRUE(LooksSoon(1000, /*is_paced=*/false)); }).join();
  ends = true;
  paced.join();
}

// Of the calling thread at the scheduler.
struct Scheduling {
  uint32_t size, policy;
  uint64_t flags;
  int32_t nice;
  uint32_t priority;
  uint64_t runtime_ns, deadline_ns, period_ns;

  static Scheduling Get() {
    Scheduling scheduling{};
    EXPECT_EQ(syscall(SYS_sched_getattr, 0, &scheduling, sizeof(scheduling), 0), 0);
    return scheduling;
  }
};

TEST_F(ReadPacingTest, AThreadThatHurriesHasShortSlicesAndKeepsItsPriority) {
  std::thread([this] {
    ASSERT_EQ(setpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid)), 3), 0);
    const Scheduling before = Scheduling::Get();
    Scheduling probe = before;
    probe.runtime_ns = 200'000;
    const bool has_slices = syscall(SYS_sched_setattr, 0, &probe, 0) == 0 &&
                            Scheduling::Get().runtime_ns == probe.runtime_ns;
    // Far back, so that the next look ends it.
    HurryReads(Clock::now() - 2 * kHurries);
    const Scheduling during = Scheduling::Get();
    EXPECT_EQ(during.nice, 3);
    EXPECT_EQ(during.policy, before.policy);
    if (has_slices) {
      EXPECT_LT(during.runtime_ns, probe.runtime_ns);
    }
    Look(1000);
    const Scheduling after = Scheduling::Get();
    EXPECT_EQ(after.nice, 3);
    if (has_slices) {
      EXPECT_GT(after.runtime_ns, probe.runtime_ns);
    }
  }).join();
}

}  // namespace
}  // namespace beamline::read_pacing_test
