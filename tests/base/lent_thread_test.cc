#include "base/lent_thread.h"

#include <gtest/gtest.h>

#include <thread>
#include <utility>

#include "base/work_batch.h"

namespace beamline::lent_thread_test {
namespace {

TEST(LentThreadTest, DoesWhatItIsLeftAtItsEnd) {
  EXPECT_EQ(LentThread::OfThisThread(), nullptr);
  bool done = false, lent_meanwhile = true, working_meanwhile = false;
  {
    const LentThread lent;
    ASSERT_EQ(LentThread::OfThisThread(), &lent);
    LentThread::OfThisThread()->Leave([&] {
      done = true;
      lent_meanwhile = LentThread::OfThisThread() != nullptr;
      working_meanwhile = LentThread::IsWorking();
      const WorkBatch batch;  // the work may have one
    });
    EXPECT_FALSE(done);
    EXPECT_FALSE(LentThread::IsWorking());
    EXPECT_EQ(LentThread::OfThisThread(), nullptr);  // it has work
  }
  EXPECT_TRUE(done);
  EXPECT_FALSE(lent_meanwhile);
  EXPECT_TRUE(working_meanwhile);
  EXPECT_FALSE(LentThread::IsWorking());
  const LentThread again;
  EXPECT_EQ(LentThread::OfThisThread(), &again);
}

TEST(LentThreadTest, TellsThatItHasWorkedUntilItLendsItselfAgain) {
  const auto work = [] {
    const LentThread lent;
    LentThread::OfThisThread()->Leave([] {});
  };
  EXPECT_FALSE(LentThread::HasWorked());
  work();
  EXPECT_TRUE(LentThread::HasWorked());
  bool elsewhere = true;
  std::thread([&] { elsewhere = LentThread::HasWorked(); }).join();
  EXPECT_FALSE(elsewhere);
  LentThread::ForgetWork();
  EXPECT_FALSE(LentThread::HasWorked());
  work();
  const LentThread again;
  EXPECT_FALSE(LentThread::HasWorked());
}

// Takes what is left, or does not.
class Takes final : public LentThread::Later {
 public:
  explicit Takes(bool takes) : takes_(takes) {}
  bool Take(LentThread::Work& work) override {
    ++asked;
    if (takes_) taken = std::move(work);
    return takes_;
  }

  int asked = 0;
  LentThread::Work taken;

 private:
  const bool takes_;
};

TEST(LentThreadTest, WhatIsLeftMayBeDoneLater) {
  Takes takes(true), leaves(false);
  int done = 0;
  { const LentThread without_work(&takes); }
  EXPECT_EQ(takes.asked, 0);
  {
    const LentThread lent(&takes);
    LentThread::OfThisThread()->Leave([&] { done += LentThread::IsWorking() ? 1 : 100; });
  }
  EXPECT_EQ(takes.asked, 1);
  EXPECT_EQ(done, 0);
  LentThread::Do(takes.taken);
  EXPECT_EQ(done, 1);
  {
    const LentThread lent(&leaves);
    LentThread::OfThisThread()->Leave([&] { ++done; });
  }
  EXPECT_EQ(leaves.asked, 1);
  EXPECT_EQ(done, 2);
}

TEST(LentThreadTest, IsOneThreadAlone) {
  const LentThread lent;
  std::thread([] { EXPECT_EQ(LentThread::OfThisThread(), nullptr); }).join();
}

TEST(LentThreadTest, NeitherLendsTwiceNorWithABatch) {
  const auto lend_twice = [] {
    const LentThread lent;
    const LentThread other;
  };
  EXPECT_DEATH(lend_twice(), "");
  const auto lend_with_a_batch = [] {
    const WorkBatch batch;
    const LentThread lent;
  };
  EXPECT_DEATH(lend_with_a_batch(), "");
}

}  // namespace
}  // namespace beamline::lent_thread_test
