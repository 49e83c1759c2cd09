#include "base/waiting_thread.h"

#include <gtest/gtest.h>

#include <thread>

#include "base/work_batch.h"

namespace beamline::waiting_thread_test {
namespace {

constexpr auto kNever = [] { return false; };

TEST(WaitingThreadTest, DoesWhatItIsLeftAtItsEnd) {
  EXPECT_EQ(WaitingThread::OfThisThread(), nullptr);
  bool is_there = false, waited = false, still_waits = true, lends = true;
  const auto is_answered = [&] { return is_there; };
  {
    const WaitingThread waiting(is_answered);
    WaitingThread* const left = WaitingThread::OfThisThread();
    ASSERT_EQ(left, &waiting);
    left->Leave([&, left] {
      waited = left->StillWaits();
      is_there = true;
      still_waits = left->StillWaits();
      lends = WaitingThread::OfThisThread() != nullptr;
    });
    EXPECT_EQ(WaitingThread::OfThisThread(), nullptr);  // it has work
    EXPECT_FALSE(is_there);
  }
  EXPECT_TRUE(waited && is_there);
  EXPECT_FALSE(still_waits || lends);
  { const WaitingThread without_work(kNever); }
  EXPECT_EQ(WaitingThread::OfThisThread(), nullptr);
}

TEST(WaitingThreadTest, IsOneThreadAlone) {
  const WaitingThread waiting(kNever);
  std::thread([] { EXPECT_EQ(WaitingThread::OfThisThread(), nullptr); }).join();
}

TEST(WaitingThreadTest, LendsNeitherTwiceNorWithABatch) {
  EXPECT_TRUE(WaitingThread::MayLend());
  {
    const WaitingThread waiting(kNever);
    EXPECT_FALSE(WaitingThread::MayLend());
  }
  const WorkBatch batch;
  EXPECT_FALSE(WaitingThread::MayLend());
}

}  // namespace
}  // namespace beamline::waiting_thread_test
