#include "server/admission.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace beamline::admission_test {
namespace {

using testing::HasSubstr;

TEST(Admission, TakesAsManyAsItsLimit) {
  Admission admission(2);
  auto first = admission.Admit();
  auto second = admission.Admit();
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(admission.running(), 2);
  for (int i = 0; i < 3; ++i) {  // a refusal takes no place
    const absl::Status refused = admission.Admit().status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_THAT(std::string(refused.message()), HasSubstr("2 requests are running"));
  }
  EXPECT_EQ(admission.running(), 2);
  {
    const Admission::Permit moved = *std::move(first);
    EXPECT_EQ(admission.running(), 2);
  }
  EXPECT_EQ(admission.running(), 1);  // the place is given back once
  EXPECT_TRUE(admission.Admit().ok());
}

TEST(Admission, TakesAllPlacesOrNone) {
  Admission admission(4);
  const auto one = admission.Admit();
  const absl::Status refused = admission.Admit(4).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("1 requests are running, and 4 more"));
  auto three = admission.Admit(3);
  ASSERT_TRUE(three.ok());
  EXPECT_FALSE(admission.Admit().ok());
  EXPECT_EQ(admission.running(), 4);
  three->GivePlaces();
  EXPECT_EQ(admission.running(), 4);  // until they are done
  EXPECT_TRUE(admission.Admit(3).ok());
  EXPECT_FALSE(admission.Admit(4).ok());
  { const Admission::Permit moved = *std::move(three); }
  EXPECT_EQ(admission.running(), 1);
  EXPECT_FALSE(admission.Admit(4).ok());
  EXPECT_TRUE(admission.Admit(3).ok());
}

TEST(Admission, DrainsForGood) {
  Admission admission(2);
  const auto running = admission.Admit();
  ASSERT_TRUE(running.ok());
  EXPECT_FALSE(admission.draining());
  admission.StartDraining();
  EXPECT_TRUE(admission.draining());
  EXPECT_EQ(admission.Admit().status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(admission.running(), 1);
}

TEST(Admission, NeverHasMoreThanItsLimitAmongThreads) {
  constexpr int kLimit = 3;
  Admission admission(kLimit);
  std::atomic<int> inside = 0, most = 0, admitted = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 5000; ++i) {
        const auto permit = admission.Admit();
        if (!permit.ok()) continue;
        ++admitted;
        const int now = ++inside;
        for (int seen = most; now > seen && !most.compare_exchange_weak(seen, now);) {
        }
        --inside;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(most, kLimit);
  EXPECT_GT(admitted, 0);
  EXPECT_EQ(admission.running(), 0);
}

}  // namespace
}  // namespace beamline::admission_test
