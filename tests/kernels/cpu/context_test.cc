#include "kernels/cpu/context.h"

#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace beamline::cpu::context_test {
namespace {

constexpr double kLong = 1e9;  // ns

// The calls of a body over 64 items, one at a time: how many, and whether all were on this thread.
struct Calls {
  int64_t items = 0;
  bool all_here = true;
  int count = 0;
};

Calls CallsOver64(Context& context, double cost_ns) {
  std::vector<Calls> by_thread(64);
  const std::thread::id here = std::this_thread::get_id();
  context.Run(64, 1, cost_ns, [&](int64_t begin, int64_t end, Scratch&) {
    for (int64_t i = begin; i < end; ++i) {
      by_thread[static_cast<size_t>(i)] = {1, std::this_thread::get_id() == here, i == begin};
    }
  });
  Calls all;
  for (const Calls& of : by_thread) {
    all.items += of.items;
    all.all_here = all.all_here && of.all_here;
    all.count += of.count;
  }
  return all;
}

TEST(ContextTest, DividesWhatIsLong) {
  Context context(3, /*own_pool=*/true);
  const Calls calls = CallsOver64(context, kLong);
  EXPECT_EQ(calls.items, 64);
  EXPECT_EQ(calls.count, 64);
}

TEST(ContextTest, DoesWhatIsShortAtOnce) {
  Context context(3, /*own_pool=*/true);
  const Calls calls = CallsOver64(context, 100);
  EXPECT_EQ(calls.items, 64);
  EXPECT_TRUE(calls.all_here);
  EXPECT_EQ(calls.count, 1);
}

}  // namespace
}  // namespace beamline::cpu::context_test
