#include "server/calls/admission.h"

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
  auto first = admission.Admit("a");
  auto second = admission.Admit("a");
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(admission.running(), 2);
  for (int i = 0; i < 3; ++i) {  // a refusal takes no place
    const absl::Status refused = admission.Admit("a").status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_THAT(std::string(refused.message()), HasSubstr("2 requests are running"));
  }
  EXPECT_EQ(admission.running(), 2);
  {
    const Admission::Permit moved = *std::move(first);
    EXPECT_EQ(admission.running(), 2);
  }
  EXPECT_EQ(admission.running(), 1);  // the place is given back once
  EXPECT_TRUE(admission.Admit("a").ok());
}

TEST(Admission, TakesAllPlacesOrNone) {
  Admission admission(4);
  const auto one = admission.Admit("a");
  const absl::Status refused = admission.Admit("a", 4).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("1 requests are running, and 4 more"));
  auto three = admission.Admit("a", 3);
  ASSERT_TRUE(three.ok());
  EXPECT_FALSE(admission.Admit("a").ok());
  EXPECT_EQ(admission.running(), 4);
  three->GivePlaces();
  EXPECT_EQ(admission.running(), 4);  // until they are done
  EXPECT_TRUE(admission.Admit("a", 3).ok());
  EXPECT_FALSE(admission.Admit("a", 4).ok());
  { const Admission::Permit moved = *std::move(three); }
  EXPECT_EQ(admission.running(), 1);
  EXPECT_FALSE(admission.Admit("a", 4).ok());
  EXPECT_TRUE(admission.Admit("a", 3).ok());
}

TEST(Admission, KeepsTheLastPlacesForClientsThatHaveFew) {
  Admission admission(32);
  std::vector<Admission::Permit> greedy, others;
  for (;;) {
    auto permit = admission.Admit("greedy");
    if (!permit.ok()) break;
    greedy.push_back(*std::move(permit));
  }
  EXPECT_EQ(greedy.size(), 30u);
  EXPECT_THAT(
      std::string(admission.Admit("greedy").status().message()),
      HasSubstr("30 requests are running, 30 of them the client's; accepted: at most 32, of "
                "which the last 2 are for clients that have few"));
  EXPECT_FALSE(admission.Admit("greedy", 2).ok());
  for (const char* client : {"b", "c"}) {
    auto permit = admission.Admit(client);
    ASSERT_TRUE(permit.ok()) << permit.status();
    others.push_back(*std::move(permit));
  }
  EXPECT_THAT(std::string(admission.Admit("d").status().message()),
              HasSubstr("32 requests are running, the most"));
  greedy.pop_back();
  EXPECT_FALSE(admission.Admit("greedy").ok());
  greedy.back().GivePlaces();
  others.clear();
  EXPECT_TRUE(admission.Admit("greedy").ok());  // and is given back
  EXPECT_EQ(admission.running(), 29);
  greedy.clear();
  EXPECT_EQ(admission.running(), 0);
}

TEST(Admission, DrainsForGood) {
  Admission admission(2);
  const auto running = admission.Admit("a");
  ASSERT_TRUE(running.ok());
  EXPECT_FALSE(admission.draining());
  admission.StartDraining();
  EXPECT_TRUE(admission.draining());
  EXPECT_EQ(admission.Admit("a").status().code(), absl::StatusCode::kUnavailable);
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
        const auto permit = admission.Admit("a");
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
