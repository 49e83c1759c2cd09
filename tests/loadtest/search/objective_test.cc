#include "loadtest/search/objective.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace beamline::loadtest::objective_test {
namespace {

TEST(ObjectiveTest, IsALatencyAPercentileAndALimit) {
  const auto objective = ParseObjective("--slo", "ttft:p95:100ms");
  ASSERT_TRUE(objective.ok()) << objective.status();
  EXPECT_STREQ(objective->latency->key, "time_to_first_token");
  EXPECT_EQ(objective->percentile, 95);
  EXPECT_EQ(objective->limit_ms, 100);
  EXPECT_TRUE(objective->IsOfStreams());
  EXPECT_EQ(objective->Name(), "first token p95");
  EXPECT_EQ(ParseObjective("--slo", "e2e:p99.9:1.5s")->limit_ms, 1500);
  EXPECT_EQ(ParseObjective("--slo", "e2e:p99.9:1.5s")->Name(), "end to end p99.9");
  EXPECT_FALSE(ParseObjective("--slo", "e2e:p50:1s")->IsOfStreams());
  EXPECT_DOUBLE_EQ(ParseObjective("--slo", "itl:p100:500us")->limit_ms, 0.5);
}

TEST(ObjectiveTest, IsTheValueOfItsPercentile) {
  ClassSummary requests;
  for (int ms = 1; ms <= 100; ++ms) requests.end_to_end.Record(ms * 1'000'000);
  EXPECT_NEAR(ParseObjective("--slo", "e2e:p90:1s")->ValueMs(requests), 90, 0.1);
  EXPECT_NEAR(ParseObjective("--slo", "e2e:p100:1s")->ValueMs(requests), 100, 0.1);
}

TEST(ObjectiveTest, AnythingElseIsRefusedByName) {
  for (const char* text : {"",
                           "e2e",
                           "e2e:p99",
                           "e2e:p99:",
                           "e2e:p99:200",
                           "e2e:p99:ms",
                           "e2e:99:200ms",
                           "e2e:p0:200ms",
                           "e2e:p101:200ms",
                           "e2e:pnan:200ms",
                           "e2e:p99:0ms",
                           "e2e:p99:-1ms",
                           "e2e:p99:infs",
                           "e2e:p99:9999s",
                           "e2e:p99:200ms:",
                           "e2e:p99: 200ms",
                           "E2E:p99:200ms",
                           "latency:p99:200ms",
                           ":p99:200ms",
                           "e2e::200ms",
                           "e2e:p99:1e999ms"}) {
    const auto objective = ParseObjective("--slo", text);
    ASSERT_FALSE(objective.ok()) << text;
    EXPECT_THAT(std::string(objective.status().message()),
                testing::StartsWith("--slo is '" + std::string(text) + "'; accepted: LATENCY:"));
  }
}

}  // namespace
}  // namespace beamline::loadtest::objective_test
