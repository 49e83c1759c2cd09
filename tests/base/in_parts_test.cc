#include "base/in_parts.h"

#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

namespace beamline::in_parts_test {
namespace {

TEST(InPartsTest, DoesEachItemOnceInPartsOfTheSize) {
  for (const size_t count : {0, 1, 7, 8, 9, 1000}) {
    for (const size_t part : {1, 8, 1000, 5000}) {
      for (const int threads : {0, 1, 3, 64}) {
        std::vector<std::atomic<int>> done(count);
        std::atomic<bool> fits = true;
        InParts(count, part, threads, [&](size_t begin, size_t end) {
          if (begin >= end || end - begin > part || begin % part != 0) fits = false;
          for (size_t i = begin; i < end; ++i) ++done[i];
        });
        EXPECT_TRUE(fits);
        for (const auto& times : done) EXPECT_EQ(times, 1) << count << " in parts of " << part;
      }
    }
  }
}

TEST(InPartsTest, OneThreadIsTheCaller) {
  std::set<std::thread::id> threads;
  InParts(10, 1, 1, [&](size_t, size_t) { threads.insert(std::this_thread::get_id()); });
  EXPECT_EQ(threads, std::set{std::this_thread::get_id()});
}

TEST(InPartsTest, NoMoreThreadsThanAskedFor) {
  std::mutex mutex;
  std::set<std::thread::id> threads;
  InParts(500, 1, 2, [&](size_t, size_t) {
    std::lock_guard lock(mutex);
    threads.insert(std::this_thread::get_id());
  });
  EXPECT_LE(threads.size(), 2u);
}

}  // namespace
}  // namespace beamline::in_parts_test
