// Searches for the highest rate of a server whose capacity is known.
#include "loadtest/find_rate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <thread>

#include "base/command_line.h"
#include "nlohmann/json.hpp"
#include "tests/loadtest/scripted_server.h"
#include "tests/scratch_path.h"

namespace beamline::loadtest::find_rate_test {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

struct Found {
  absl::StatusOr<bool> succeeded;
  nlohmann::json result;
};

Found Find(const ScriptedServer& server, FindRateFlags flags) {
  flags.run.target = server.target();
  flags.run.json_file = ScratchPath("search.json");
  flags.run.html_file = ScratchPath("search.html");
  flags.run.csv_file = ScratchPath("search.csv");
  for (const std::string& path : {flags.run.json_file, flags.run.html_file, flags.run.csv_file}) {
    std::filesystem::remove(path);
  }
  Found found{.succeeded = FindRate(flags, "test")};
  std::ifstream file(flags.run.json_file);
  if (file) found.result = nlohmann::json::parse(file);
  EXPECT_TRUE(!found.succeeded.ok() || std::filesystem::exists(flags.run.html_file));
  EXPECT_TRUE(!found.succeeded.ok() || std::filesystem::exists(flags.run.csv_file));
  return found;
}

// Short probes of unary calls, which a busy machine may disturb.
FindRateFlags ShortProbes() {
  FindRateFlags flags;
  flags.run.requests.kinds = {"generate"};
  flags.run.arrivals = "constant";
  flags.run.duration_s = 0.5;
  flags.run.warmup_s = 0.1;
  flags.settle_s = 0.05;
  flags.min_requests = 10;
  flags.min_rate = 25;
  flags.max_rate = 1000;
  flags.precision = 0.3;
  flags.max_lateness_ms = 1000;
  flags.min_answered_share = 0.6;
  flags.limits = {"e2e:p90:100ms"};
  return flags;
}

// Of 200 a second: at twice as much, half of the requests of half a second wait for a quarter.
TEST(FindRateTest, FindsTheCapacity) {
  ScriptedServer server({.service = milliseconds(5)});
  const auto [succeeded, result] = Find(server, ShortProbes());
  ASSERT_TRUE(succeeded.ok()) << succeeded.status();
  EXPECT_TRUE(*succeeded);
  EXPECT_EQ(result["search"]["end"], "found");
  const double highest = result["highest"]["rate_per_s"];
  EXPECT_GE(highest, 100) << result["conclusion"];
  EXPECT_LT(highest, 400) << result["conclusion"];
  EXPECT_LE(result["lowest_failing"]["rate_per_s"].get<double>(), 1.3 * highest * 1.01);
  const auto& probes = result["probes"];
  EXPECT_EQ(probes[0]["rate_per_s"], 25.0);
  EXPECT_EQ(probes[0]["duration_s"], 0.5);
  EXPECT_TRUE(std::ranges::any_of(
      probes, [](const nlohmann::json& probe) { return probe["rate_per_s"] == 50.0; }));
  for (const auto& probe : probes) {
    EXPECT_EQ(probe["holds"], probe["why"] == "") << probe["why"];
    EXPECT_NEAR(probe["sent_per_s"].get<double>(), probe["rate_per_s"].get<double>(), 5);
  }
}

// An endless wait is no throughput, whatever the latencies of what was answered.
TEST(FindRateTest, ThroughputMustFollowTheRate) {
  ScriptedServer server({.service = milliseconds(5)});
  FindRateFlags flags = ShortProbes();
  flags.limits.clear();
  flags.min_rate = 600;
  flags.tries = 1;
  const auto [succeeded, result] = Find(server, flags);
  ASSERT_TRUE(succeeded.ok()) << succeeded.status();
  EXPECT_FALSE(*succeeded);
  EXPECT_EQ(result["search"]["end"], "lowest_fails");
  EXPECT_THAT(result["probes"][0]["why"].get<std::string>(), HasSubstr("/s of 600/s"));
  EXPECT_LT(result["probes"][0]["answered_per_s"].get<double>(), 300);
  EXPECT_TRUE(result["highest"].is_null());
}

TEST(FindRateTest, EvenTheLowestFails) {
  ScriptedServer server({.delay = milliseconds(40)});
  FindRateFlags flags = ShortProbes();
  flags.limits = {"e2e:p100:10s", "e2e:p50:20ms"};
  const auto [succeeded, result] = Find(server, flags);
  ASSERT_TRUE(succeeded.ok()) << succeeded.status();
  EXPECT_FALSE(*succeeded);
  EXPECT_EQ(result["search"]["end"], "lowest_fails");
  EXPECT_EQ(result["probes"].size(), 2U);  // both tries
  EXPECT_THAT(result["conclusion"].get<std::string>(), HasSubstr("--min-rate lowers it"));
  EXPECT_GE(result["probes"][0]["objectives_ms"][1].get<double>(), 40);
}

TEST(FindRateTest, TheTopOfTheRangeHolds) {
  ScriptedServer server({});
  FindRateFlags flags = ShortProbes();
  flags.limits = {"ttft:p50:1s", "itl:p50:1s"};
  flags.run.requests.kinds = {"generate_stream"};
  flags.max_rate = 60;
  const auto [succeeded, result] = Find(server, flags);
  ASSERT_TRUE(succeeded.ok()) << succeeded.status();
  EXPECT_TRUE(*succeeded);
  EXPECT_EQ(result["search"]["end"], "highest_holds");
  EXPECT_EQ(result["highest"]["rate_per_s"], 60.0);
  EXPECT_EQ(result["highest"]["is_lower_bound"], true);
  EXPECT_THAT(result["conclusion"].get<std::string>(), HasSubstr("At least 60.0/s hold"));
  EXPECT_EQ(result["environment"]["server_version"], "1.2.3 (scripted)");
  EXPECT_GE(result["probes"].size(), 3U);
}

// As an overloaded server answers, at a rate that depends on the load.
TEST(FindRateTest, RefusalsFailARate) {
  ScriptedServer server({.service = milliseconds(10), .max_open = 2});
  FindRateFlags flags = ShortProbes();
  flags.limits.clear();
  flags.min_rate = 400;
  const auto [succeeded, result] = Find(server, flags);
  ASSERT_TRUE(succeeded.ok()) << succeeded.status();
  EXPECT_FALSE(*succeeded);
  EXPECT_THAT(result["probes"][0]["why"].get<std::string>(), HasSubstr("x RESOURCE_EXHAUSTED"));
}

TEST(FindRateTest, TheSearchsTimeIsBounded) {
  ScriptedServer server({});
  FindRateFlags flags = ShortProbes();
  flags.max_time_s = 1.5;
  const auto begin = std::chrono::steady_clock::now();
  const auto [succeeded, result] = Find(server, flags);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, milliseconds(10'000));
  ASSERT_TRUE(succeeded.ok()) << succeeded.status();
  EXPECT_EQ(result["search"]["end"], "out_of_time");
  EXPECT_GE(result["probes"].size(), 1U);
  EXPECT_LE(result["probes"].size(), 2U);
}

TEST(FindRateTest, ASearchWithoutAProbeHasNoVerdict) {
  ScriptedServer server({});
  FindRateFlags flags = ShortProbes();
  flags.run.duration_s = 5;
  flags.max_time_s = 2;
  const auto [succeeded, result] = Find(server, flags);
  EXPECT_EQ(succeeded.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(succeeded.status().message()),
              HasSubstr("Nothing was measured: no probe was run. The first one takes 5.1 s, and "
                        "--max-time is 2 s."));
  EXPECT_EQ(server.num_requests(), 0);
  EXPECT_EQ(result["has_verdict"], false);  // the files are there all the same
  EXPECT_EQ(result["search"]["end"], "out_of_time");
  EXPECT_TRUE(std::filesystem::exists(ScratchPath("search.html")));
}

TEST(FindRateTest, AnInterruptReportsWhatThereIs) {
  ScriptedServer server({});
  FindRateFlags flags = ShortProbes();
  flags.run.duration_s = 1.5;
  std::thread interrupter([] {
    std::this_thread::sleep_for(milliseconds(2500));
    raise(SIGINT);
  });
  const auto [succeeded, result] = Find(server, flags);
  interrupter.join();
  ASSERT_TRUE(succeeded.ok()) << succeeded.status();
  EXPECT_EQ(result["search"]["end"], "interrupted");
  ASSERT_GE(result["probes"].size(), 1U);
  for (const auto& probe : result["probes"]) {
    EXPECT_EQ(probe["interrupted"].get<bool>(), probe["why"] == "cut short");
  }
}

// After the time that a connection may take.
TEST(FindRateTest, AServerThatGoesAwayEndsTheSearchWithTheReport) {
  auto server = std::make_unique<ScriptedServer>(Script{});
  FindRateFlags flags = ShortProbes();
  flags.run.target = server->target();
  flags.run.json_file = ScratchPath("broken.json");
  std::thread stopper([&server] {
    std::this_thread::sleep_for(milliseconds(1000));
    server.reset();
  });
  const auto succeeded = FindRate(flags, "test");
  stopper.join();
  EXPECT_EQ(succeeded.status().code(), absl::StatusCode::kUnavailable);
  std::ifstream file(flags.run.json_file);
  ASSERT_TRUE(file);
  const auto result = nlohmann::json::parse(file);
  EXPECT_EQ(result["search"]["end"], "broken");
  EXPECT_THAT(result["conclusion"].get<std::string>(), HasSubstr("broke off: no server answers"));
}

TEST(FindRateTest, WhatCannotWorkIsSaidFirst) {
  ScriptedServer server({});
  const auto fault = [&](const std::function<void(FindRateFlags&)>& change) {
    FindRateFlags flags = ShortProbes();
    flags.run.target = server.target();
    change(flags);
    return std::string(FindRate(flags, "test").status().message());
  };
  EXPECT_THAT(fault([](FindRateFlags& flags) { flags.limits = {"e2e"}; }),
              HasSubstr("--slo is 'e2e'; accepted: LATENCY:"));
  EXPECT_THAT(fault([](FindRateFlags& flags) { flags.limits = {"ttft:p99:1s"}; }),
              HasSubstr("accepted without generate_stream: limits of e2e"));
  EXPECT_THAT(fault([](FindRateFlags& flags) { flags.min_rate = 2000; }),
              HasSubstr("--min-rate is 2000; accepted: at most the 1000 of --max-rate"));
  EXPECT_THAT(fault([](FindRateFlags& flags) {
                flags.run.json_file = ScratchPath("same");
                flags.run.csv_file = ScratchPath("same");
              }),
              HasSubstr("as --json; accepted: another file"));
  EXPECT_THAT(fault([](FindRateFlags& flags) { flags.run.target = "10.0.0.1:5"; }),
              HasSubstr("is not on this machine"));
  EXPECT_EQ(server.num_requests(), 0);
}

TEST(FindRateTest, EveryFlagIsKept) {
  CLI::App app;
  FindRateFlags flags;
  AddFindRateFlags(app, flags);
  const char* const arguments[] = {
      "find-rate", "--slo",      "e2e:p99:1s", "--slo",       "ttft:p95:1s", "--max-errors",
      "0.5",       "--min-rate", "3",          "--max-rate",  "4",           "--growth",
      "1.5",       "--tries",    "5",          "--precision", "0.2",         "--min-requests",
      "6",         "--settle",   "7",          "--max-time",  "8",           "--max-lateness-ms",
      "9",         "--duration", "10",         "--warmup",    "11",          "--min-answered",
      "0.25",      "--kind",     "encode",     "--csv",       "c",           "--label",
      "l"};
  const auto text = ParseArguments(app, std::size(arguments), arguments);
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_THAT(flags.limits, testing::ElementsAre("e2e:p99:1s", "ttft:p95:1s"));
  EXPECT_EQ(flags.max_error_share, 0.5);
  EXPECT_EQ(flags.min_rate, 3);
  EXPECT_EQ(flags.max_rate, 4);
  EXPECT_EQ(flags.growth, 1.5);
  EXPECT_EQ(flags.tries, 5);
  EXPECT_EQ(flags.precision, 0.2);
  EXPECT_EQ(flags.min_requests, 6);
  EXPECT_EQ(flags.settle_s, 7);
  EXPECT_EQ(flags.max_time_s, 8);
  EXPECT_EQ(flags.max_lateness_ms, 9);
  EXPECT_EQ(flags.run.duration_s, 10);
  EXPECT_EQ(flags.run.warmup_s, 11);
  EXPECT_EQ(flags.min_answered_share, 0.25);
  EXPECT_THAT(flags.run.requests.kinds, testing::ElementsAre("encode"));
  EXPECT_EQ(flags.run.csv_file, "c");
  EXPECT_EQ(flags.run.label, "l");
}

}  // namespace
}  // namespace beamline::loadtest::find_rate_test
