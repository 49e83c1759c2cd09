#include "server/thread_room.h"

#include <gtest/gtest.h>

#include "tests/thread_limit.h"

namespace beamline::thread_room_test {
namespace {

TEST(ThreadRoom, SaysHowManyThereAre) {
  EXPECT_TRUE(CheckThreadRoom(8).ok());
  const ThreadLimit limit(5);
  EXPECT_EQ(CheckThreadRoom(8),
            absl::ResourceExhaustedError("the limit of threads (ulimit -u, or pids of a control "
                                         "group) leaves room for 5 more; needed: 8"));
}

}  // namespace
}  // namespace beamline::thread_room_test
