#include "server/process/memory_trim.h"

#include <gtest/gtest.h>
#include <malloc.h>

#include <atomic>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "tests/sanitized.h"

namespace beamline::memory_trim_test {
namespace {

constexpr int64_t kMiB = 1 << 20;

using Pieces = std::vector<std::unique_ptr<std::vector<char>>>;

// Pieces below the size of those that the system gives one by one. Every 32nd of them stays, so
// that the heap keeps the others when they are freed.
Pieces LeaveHoles(int64_t bytes) {
  constexpr int64_t kPieceBytes = 32 << 10;
  Pieces pieces, kept;
  for (int64_t i = 0; i < bytes / kPieceBytes; ++i) {
    (i % 32 == 31 ? kept : pieces).push_back(std::make_unique<std::vector<char>>(kPieceBytes, 'x'));
  }
  return kept;
}

TEST(MemoryTrim, ReturnsWhatABurstHasLeft) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer has a heap of its own";
  malloc_trim(0);  // what other tests of this process have left
  const int64_t before = ResidentBytes();
  ASSERT_GT(before, 0);
  const Pieces kept = LeaveHoles(200 * kMiB);
  ASSERT_GT(ResidentBytes(), before + 150 * kMiB);  // the heap keeps it
  const MemoryTrim trim({.interval = std::chrono::milliseconds(10), .least_bytes = 32 * kMiB});
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (ResidentBytes() > before + 50 * kMiB && std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_LT(ResidentBytes(), before + 50 * kMiB);
  for (const auto& piece : kept) EXPECT_EQ(piece->back(), 'x');
}

// A look in the middle of a burst returns nothing; what the burst then frees makes nothing grow.
TEST(MemoryTrim, ReturnsWhatWasInUseAtTheLookBefore) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer has a heap of its own";
  malloc_trim(0);
  const int64_t before = ResidentBytes();
  std::atomic<int> looks = 0;
  MemoryTrim::Options options = {.interval = std::chrono::milliseconds(10),
                                 .least_bytes = 32 * kMiB};
  options.return_others = [&looks] { ++looks; };
  Pieces burst, kept;
  constexpr int64_t kPieceBytes = 32 << 10;
  for (int64_t i = 0; i < 200 * kMiB / kPieceBytes; ++i) {
    (i % 32 == 31 ? kept : burst).push_back(std::make_unique<std::vector<char>>(kPieceBytes, 'x'));
  }
  const MemoryTrim trim(options);
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  const auto wait = [&until](const std::function<bool()>& what) {
    while (!what() && std::chrono::steady_clock::now() < until) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return what();
  };
  ASSERT_TRUE(wait([&] { return looks > 0; }));
  ASSERT_GT(ResidentBytes(), before + 150 * kMiB);
  burst.clear();
  EXPECT_TRUE(wait([&] { return ResidentBytes() < before + 50 * kMiB; })) << ResidentBytes();
  for (const auto& piece : kept) EXPECT_EQ(piece->back(), 'x');
}

TEST(MemoryTrim, LeavesAlone) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer has a heap of its own";
  const Pieces kept = LeaveHoles(64 * kMiB);
  const int64_t before = ResidentBytes();
  {
    const MemoryTrim trim({.interval = std::chrono::milliseconds(5), .least_bytes = 4096 * kMiB});
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  EXPECT_GT(ResidentBytes(), before - 8 * kMiB);
}

}  // namespace
}  // namespace beamline::memory_trim_test
