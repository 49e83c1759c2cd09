#include "engine/scheduling/prompt_shares.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <random>
#include <string>
#include <vector>

namespace beamline::prompt_shares_test {
namespace {

std::vector<int32_t> Shares(int32_t num_tokens, std::vector<PromptDemand> demands) {
  SharePromptTokens(num_tokens, demands);
  std::vector<int32_t> shares;
  for (const PromptDemand& demand : demands) shares.push_back(demand.share);
  return shares;
}

using Values = std::vector<int32_t>;

TEST(SharePromptTokensTest, OneClientsPromptsGoInTheirOrder) {
  EXPECT_EQ(Shares(100, {{"a", 0, 30}, {"a", 0, 90}, {"a", 0, 10}}), (Values{30, 70, 0}));
}

TEST(SharePromptTokensTest, ClientsShareEquallyWhateverTheirPrompts) {
  EXPECT_EQ(Shares(100, {{"a", 0, 5000}, {"a", 0, 5000}, {"b", 0, 5000}}), (Values{50, 0, 50}));
  EXPECT_EQ(Shares(100, {{"a", 0, 5000}, {"b", 0, 10}, {"c", 0, 5000}}), (Values{45, 10, 45}));
}

TEST(SharePromptTokensTest, ThoseThatWaitedLongestComeFirst) {
  std::vector<PromptDemand> demands = {{"a", 9, 50}, {"b", 7, 50}, {"b", 3, 50}, {"c", 8, 50}};
  EXPECT_EQ(SharePromptTokens(1, demands), 1u);  // b had tokens in step 7, c in 8, a in 9
  EXPECT_EQ(demands[1].share, 1);
  EXPECT_EQ(demands[0].share + demands[2].share + demands[3].share, 0);
}

TEST(SharePromptTokensTest, NothingIsLostOrInvented) {
  std::mt19937 random(1);
  for (int round = 0; round < 2000; ++round) {
    std::vector<std::string> names = {"a", "b", "c", "d", "e"};
    std::vector<PromptDemand> demands(1 + random() % 9);
    int64_t demanded = 0;
    for (PromptDemand& demand : demands) {
      demand = {names[random() % names.size()], random() % 4, static_cast<int32_t>(random() % 50),
                0};
      demanded += demand.tokens;
    }
    const auto num_tokens = static_cast<int32_t>(random() % 200);
    const size_t first = SharePromptTokens(num_tokens, demands);
    ASSERT_LT(first, demands.size());
    int64_t shared = 0;
    for (const PromptDemand& demand : demands) {
      ASSERT_GE(demand.share, 0);
      ASSERT_LE(demand.share, demand.tokens);
      shared += demand.share;
    }
    ASSERT_EQ(shared, std::min<int64_t>(num_tokens, demanded));
  }
}

}  // namespace
}  // namespace beamline::prompt_shares_test
