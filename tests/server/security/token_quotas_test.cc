#include "server/security/token_quotas.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "engine/api/engine.h"

namespace beamline::token_quotas_test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;

class TokenQuotasTest : public testing::Test {
 protected:
  // Without quotas of their own, 10 tokens a second and 100 at once.
  TokenQuotas& Quotas(size_t most_clients = 4,
                      QuotaLimits each = {.tokens_per_second = 10, .burst = 100}) {
    quotas_ = std::make_unique<TokenQuotas>(
        TokenQuotas::Options{
            .each = each, .most_clients = most_clients, .now = [this] { return now_; }},
        stats_);
    return *quotas_;
  }
  absl::Status Take(const std::string& client, int64_t tokens, bool is_identity = false) {
    const auto charge = quotas_->Open(client, is_identity);
    return charge == nullptr ? absl::OkStatus() : charge->Take(tokens);
  }
  static std::string RetryMs(const absl::Status& status) {
    const auto payload = status.GetPayload(kRetryAfterPayload);
    return payload.has_value() ? std::string(*payload) : "none";
  }

  Clock::time_point now_{std::chrono::hours(1)};
  QuotaStats stats_;
  std::unique_ptr<TokenQuotas> quotas_;
};

TEST_F(TokenQuotasTest, NobodyHasOneByDefault) {
  TokenQuotas& quotas = Quotas(4, {});
  EXPECT_EQ(quotas.Open("a", false), nullptr);
  EXPECT_EQ(quotas.Open("a", true), nullptr);
  EXPECT_EQ(stats_.clients, 0);
}

TEST_F(TokenQuotasTest, RefusalsNameTheQuotaAndTheTime) {
  Quotas();
  EXPECT_TRUE(Take("a", 70).ok());
  const absl::Status refused = Take("a", 50);
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(refused.message(),
            "the quota of 'a' is 10 tokens a second (tokens_per_second), 100 at once "
            "(token_burst), of which 30 are left; the request may use 50: accepted in 2.000 s");
  EXPECT_EQ(std::string(*refused.GetPayload(kRefusalPayload)), kRefusedByQuota);
  EXPECT_EQ(RetryMs(refused), "2000");
  EXPECT_EQ(stats_.refused_tokens, 50U);
  EXPECT_TRUE(Take("b", 100).ok());  // another client's is its own
  now_ += milliseconds(1999);
  EXPECT_EQ(RetryMs(Take("a", 50)), "1");
  now_ += milliseconds(1);
  EXPECT_TRUE(Take("a", 50).ok());
}

TEST_F(TokenQuotasTest, WhatIsNotUsedIsGivenBack) {
  Quotas();
  const auto charge = quotas_->Open("a", false);
  ASSERT_TRUE(charge->Take(100).ok());
  EXPECT_FALSE(Take("a", 90).ok());
  charge->Settle(100, 5);
  EXPECT_EQ(stats_.used_tokens, 5U);
  EXPECT_TRUE(Take("a", 95).ok());
  EXPECT_FALSE(Take("a", 1).ok());
}

TEST_F(TokenQuotasTest, TheFirstPartOfACallLetsInTheOthers) {
  Quotas();
  const auto charge = quotas_->Open("a", false);
  ASSERT_TRUE(charge->Take(60).ok());
  EXPECT_TRUE(charge->Take(60).ok());
  EXPECT_TRUE(charge->Check().ok());
  EXPECT_EQ(RetryMs(Take("a", 1)), "2100");  // 20 are owed
  charge->Settle(60, 0);
  charge->Settle(60, 60);
  EXPECT_TRUE(Take("a", 40).ok());
}

TEST_F(TokenQuotasTest, ALongTextIsRefusedOnceNothingIsLeft) {
  Quotas();
  const auto charge = quotas_->Open("a", false);
  EXPECT_TRUE(charge->Check().ok());
  EXPECT_TRUE(Take("a", 100).ok());  // a look takes nothing
  const absl::Status refused = charge->Check();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(RetryMs(refused), "100");
  EXPECT_THAT(std::string(refused.message()), HasSubstr("of which 0 are left"));
}

TEST_F(TokenQuotasTest, IdentitiesHaveTheirOwnAndNobodyPassesForOne) {
  TokenQuotas& quotas = Quotas();
  quotas.SetOwn({{"rich", {.tokens_per_second = 1000, .burst = 5000}}, {"free", {}}});
  EXPECT_TRUE(Take("rich", 5000, true).ok());
  EXPECT_EQ(RetryMs(Take("rich", 500, true)), "500");
  EXPECT_EQ(quotas.Open("free", true), nullptr);
  EXPECT_NE(quotas.Open("free", false), nullptr);
  EXPECT_TRUE(Take("rich", 100, false).ok());  // who calls himself so has what everybody has
  EXPECT_FALSE(Take("rich", 1, false).ok());
}

TEST_F(TokenQuotasTest, NewLimitsHoldAtOnceAndKeepWhatWasUsed) {
  TokenQuotas& quotas = Quotas(4, {});
  quotas.SetOwn({{"a", {.tokens_per_second = 10, .burst = 100}}});
  EXPECT_TRUE(Take("a", 90, true).ok());
  quotas.SetOwn({{"a", {.tokens_per_second = 20, .burst = 200}}});
  EXPECT_EQ(RetryMs(Take("a", 30, true)), "1000");
  now_ += seconds(1);
  EXPECT_TRUE(Take("a", 30, true).ok());
  const auto open = quotas.Open("a", true);
  quotas.SetOwn({});
  EXPECT_EQ(quotas.Open("a", true), nullptr);
  EXPECT_FALSE(open->Take(1).ok());  // what is under way ends by what it began with
  EXPECT_EQ(stats_.clients, 0);
  quotas.SetOwn({{"a", {.tokens_per_second = 10, .burst = 100}}});
  EXPECT_TRUE(Take("a", 100, true).ok());
}

TEST_F(TokenQuotasTest, MadeUpNamesShareOneBucketAndTakeNoMemory) {
  Quotas(/*most_clients=*/4);
  for (const char* client : {"a", "b", "c", "d"}) EXPECT_TRUE(Take(client, 50).ok());
  EXPECT_TRUE(Take("made up 1", 60).ok());
  for (int i = 2; i < 1000; ++i) {
    const absl::Status refused = Take("made up " + std::to_string(i), 60);
    EXPECT_EQ(RetryMs(refused), "2000");
    EXPECT_THAT(std::string(refused.message()), HasSubstr("for which there is no room"));
  }
  EXPECT_EQ(stats_.clients, 4);
  EXPECT_TRUE(Take("a", 50).ok());  // has its own as before
  EXPECT_FALSE(Take("a", 1).ok());
}

TEST_F(TokenQuotasTest, WhoHasAFullBucketIsForgotten) {
  Quotas(/*most_clients=*/4);
  for (const char* client : {"a", "b", "c", "d"}) EXPECT_TRUE(Take(client, 50).ok());
  const auto held = quotas_->Open("a", false);  // a request that has not taken its tokens yet
  now_ += seconds(5);
  for (int i = 0; i < 1000; ++i) {
    EXPECT_TRUE(Take("later " + std::to_string(i), 100).ok()) << i;
    now_ += seconds(10);
  }
  EXPECT_LE(stats_.clients, 4);
  EXPECT_TRUE(held->Take(100).ok());
  EXPECT_FALSE(Take("a", 100).ok());
}

TEST_F(TokenQuotasTest, ManyThreadsGetTheQuotaTogether) {
  Quotas(/*most_clients=*/4, {.tokens_per_second = 1, .burst = 10'000});
  std::atomic<int64_t> used = 0;
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 3000; ++i) {
        const auto charge = quotas_->Open("a", false);
        const auto other = quotas_->Open(std::to_string(t) + "/" + std::to_string(i), false);
        if (charge->Take(3).ok()) {
          charge->Settle(3, 2);
          used += 2;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GE(used, 9'990);
  EXPECT_LE(used, 10'000);
  EXPECT_EQ(stats_.used_tokens, static_cast<uint64_t>(used));
}

}  // namespace
}  // namespace beamline::token_quotas_test
