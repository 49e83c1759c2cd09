#include "server/guard/self_check.h"

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <iterator>
#include <thread>

namespace beamline::self_check_test {
namespace {

size_t NumDescriptors() {
  return static_cast<size_t>(std::distance(std::filesystem::directory_iterator("/proc/self/fd"),
                                           std::filesystem::directory_iterator()));
}

// This program has the guard's functions, as the server has. tests/e2e/unguarded_test.py has a gRPC
// that does not call them.
TEST(TestGuard, FindsTheGuard) {
  for (const GuardedKind kind : {GuardedKind::kPlain, GuardedKind::kTls}) {
    EXPECT_EQ(TestGuard(kind), absl::OkStatus());
  }
}

TEST(TestGuard, LeavesNoDescriptor) {
  EXPECT_EQ(TestGuard(GuardedKind::kPlain), absl::OkStatus());  // gRPC keeps some for good
  const size_t before = NumDescriptors();
  for (int i = 0; i < 10; ++i) EXPECT_EQ(TestGuard(GuardedKind::kPlain), absl::OkStatus());
  // gRPC's threads close them.
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (NumDescriptors() > before && std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_LE(NumDescriptors(), before);
}

}  // namespace
}  // namespace beamline::self_check_test
