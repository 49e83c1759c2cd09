#include "base/process_room.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <fstream>

#include "tests/thread_limit.h"

namespace beamline::process_room_test {
namespace {

TEST(ThreadRoom, SaysHowManyThereAre) {
  EXPECT_TRUE(CheckThreadRoom(8).ok());
  const ThreadLimit limit(5);
  EXPECT_EQ(CheckThreadRoom(8),
            absl::ResourceExhaustedError("the limit of threads (ulimit -u, or pids of a control "
                                         "group) leaves room for 5 more; needed: 8"));
}

TEST(AddressRoom, SaysHowMuchIsNeeded) {
  constexpr int64_t kMore = int64_t{1} << 30;
  EXPECT_TRUE(CheckAddressRoom(4, kMore).ok());
  std::ifstream sizes("/proc/self/statm");
  rlim_t pages = 0;
  sizes >> pages;
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_AS, &before), 0);
  rlimit tight = before;
  tight.rlim_cur = pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE)) + kMore / 2;
  ASSERT_EQ(setrlimit(RLIMIT_AS, &tight), 0);
  const absl::Status status = CheckAddressRoom(0, kMore);
  const bool few = CheckAddressRoom(1, 1).ok();
  EXPECT_EQ(setrlimit(RLIMIT_AS, &before), 0);
  EXPECT_EQ(status,
            absl::ResourceExhaustedError(
                "the limit of address space (ulimit -v) leaves no room for 1073741824 bytes "
                "more, which 0 threads and their memory take"));
  EXPECT_TRUE(few);
}

TEST(DescriptorRoom, SaysHowManyThereAre) {
  // The numbers that the next five have are the lowest that are free.
  std::array<int, 5> next{};
  for (int& one : next) one = dup(STDIN_FILENO);
  for (const int one : next) close(one);
  EXPECT_TRUE(CheckDescriptorRoom(8).ok());
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit tight = before;
  tight.rlim_cur = static_cast<rlim_t>(next.back() + 1);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &tight), 0);
  const absl::Status status = CheckDescriptorRoom(8);
  const int again = dup(STDIN_FILENO);  // what it opened is closed
  EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(status, absl::ResourceExhaustedError("the limit of open files (ulimit -n) leaves room "
                                                 "for 5 more; needed: 8"));
  EXPECT_EQ(again, next.front());
  close(again);
}

}  // namespace
}  // namespace beamline::process_room_test
