#include "server/net/descriptors.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <tuple>
#include <utility>

namespace beamline::descriptors_test {
namespace {

// With a limit of as many as are open and `left` more.
std::pair<absl::StatusOr<int32_t>, absl::StatusOr<int32_t>> FitOneAndTwo(int32_t wanted,
                                                                         int64_t left) {
  rlimit before{};
  EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit tight = before;
  tight.rlim_cur = static_cast<rlim_t>(CountOpenDescriptors() + left);
  EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &tight), 0);
  auto fit = std::pair(ConnectionsThatFit(wanted), ConnectionsThatFit(wanted, 2));
  EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  return fit;
}

TEST(ConnectionsThatFit, ListenersShareWhatIsLeft) {
  auto [one, two] = FitOneAndTwo(8192, 464);
  EXPECT_EQ(one.value_or(0), 400);
  EXPECT_EQ(two.value_or(0), 200);
  std::tie(one, two) = FitOneAndTwo(150, 464);
  EXPECT_EQ(one.value_or(0), 150);
  EXPECT_EQ(two.value_or(0), 150);
  std::tie(one, two) = FitOneAndTwo(150, 1);
  EXPECT_EQ(one.value_or(0), 1);
  EXPECT_TRUE(absl::IsUnavailable(two.status())) << "none for the second";
}

}  // namespace
}  // namespace beamline::descriptors_test
