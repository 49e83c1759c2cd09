#include "base/lent_thread.h"

#include <gtest/gtest.h>

#include <thread>

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
