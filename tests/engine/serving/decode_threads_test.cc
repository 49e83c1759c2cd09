#include "engine/serving/decode_threads.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include "kernels/cpu/cpu_backend.h"

namespace beamline::decode_threads_test {
namespace {

TEST(DecodeThreadsTest, EachGroupIsAskedOnce) {
  for (const int num_threads : {2, DecodeThreads::kMostThreads}) {
    DecodeThreads threads(num_threads);
    const Pipeline::Parallel parallel = threads.parallel();
    ASSERT_NE(parallel, nullptr);
    for (const size_t count : {size_t{0}, size_t{1}, DecodeThreads::kFewestGroups - 1,
                               DecodeThreads::kFewestGroups, size_t{1001}}) {
      std::vector<std::atomic<int>> asked(count);
      parallel(count, [&](size_t begin, size_t end) {
        for (size_t i = begin; i < end; ++i) ++asked[i];
      });
      for (const std::atomic<int>& times : asked) EXPECT_EQ(times, 1);
    }
  }
}

TEST(DecodeThreadsTest, FewGroupsStayOnTheCallersThread) {
  DecodeThreads threads(2);
  std::set<std::thread::id> ids;
  threads.parallel()(DecodeThreads::kFewestGroups - 1,
                     [&](size_t, size_t) { ids.insert(std::this_thread::get_id()); });
  EXPECT_EQ(ids, std::set{std::this_thread::get_id()});
}

TEST(DecodeThreadsTest, NobodyHelpsWhereTheHostComputes) {
  const std::unique_ptr<Backend> cpu = MakeCpuBackend({});
  EXPECT_EQ(DecodeThreadsFor(*cpu).num_threads(), 1);
  EXPECT_EQ(DecodeThreads(1).parallel(), nullptr);
}

}  // namespace
}  // namespace beamline::decode_threads_test
