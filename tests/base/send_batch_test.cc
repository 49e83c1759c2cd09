#include "base/send_batch.h"

#include <gtest/gtest.h>

#include <thread>

namespace beamline::send_batch_test {
namespace {

TEST(SendBatchTest, IsOneThreadAlone) {
  EXPECT_EQ(SendBatch::OfThisThread(), nullptr);
  const SendBatch batch;
  EXPECT_EQ(SendBatch::OfThisThread(), &batch);
  std::thread([] { EXPECT_EQ(SendBatch::OfThisThread(), nullptr); }).join();
}

TEST(SendBatchTest, TheOuterOneIsTheThreads) {
  {
    const SendBatch outer;
    {
      const SendBatch inner;
      EXPECT_EQ(SendBatch::OfThisThread(), &outer);
    }
    EXPECT_EQ(SendBatch::OfThisThread(), &outer);
  }
  EXPECT_EQ(SendBatch::OfThisThread(), nullptr);
}

TEST(SendBatchTest, NothingComesOfAClosedSocket) {
  SendBatch batch;
  batch.Add(-1);
  batch.Flush();
}

}  // namespace
}  // namespace beamline::send_batch_test
