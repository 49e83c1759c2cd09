#include "base/send_batch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

namespace beamline::send_batch_test {
namespace {

TEST(SendBatchTest, IsOneThreadAlone) {
  EXPECT_EQ(SendBatch::OfThisThread(), nullptr);
  SendBatch batch([] {});
  EXPECT_EQ(SendBatch::OfThisThread(), &batch);
  std::thread([] { EXPECT_EQ(SendBatch::OfThisThread(), nullptr); }).join();
}

TEST(SendBatchTest, TheOuterOneIsTheThreads) {
  {
    const SendBatch outer([] {});
    {
      const SendBatch inner([] {});
      EXPECT_EQ(SendBatch::OfThisThread(), &outer);
    }
    EXPECT_EQ(SendBatch::OfThisThread(), &outer);
  }
  EXPECT_EQ(SendBatch::OfThisThread(), nullptr);
}

TEST(SendBatchTest, WhoSendsHasTheRestCarriedOutBefore) {
  int left = 3;
  int depth = 0, deepest = 0;
  const auto run = [&] {
    while (left > 0) {
      --left;
      deepest = std::max(deepest, ++depth);
      SendBatch::OfThisThread()->RunRest();
      --depth;
    }
  };
  const SendBatch batch(run);
  run();
  EXPECT_EQ(left, 0);
  EXPECT_EQ(deepest, 3);
}

}  // namespace
}  // namespace beamline::send_batch_test
