// Whole load tests against a server in this process. Long because each is a run of its own kind.
#include "loadtest/run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>
#include <vector>

#include "base/command_line.h"
#include "loadtest/traffic/address.h"
#include "loadtest/traffic/batching.h"
#include "nlohmann/json.hpp"
#include "tests/loadtest/scripted_server.h"
#include "tests/scratch_path.h"

namespace beamline::loadtest::run_test {
namespace {

using nlohmann::json;
using std::chrono::microseconds;
using std::chrono::milliseconds;
using ::testing::HasSubstr;

struct Outcome {
  absl::StatusOr<bool> succeeded;
  json result;
};

Outcome Load(const ScriptedServer& server, RunFlags flags) {
  flags.target = server.target();
  flags.json_file = ScratchPath("run.json");
  std::filesystem::remove(flags.json_file);
  Outcome outcome{.succeeded = RunLoadTest(flags, "test")};
  std::ifstream file(flags.json_file);
  if (file) outcome.result = json::parse(file);
  return outcome;
}

RunFlags MakeFlags(double rate, double duration_s) {
  RunFlags flags;
  flags.rate = rate;
  flags.duration_s = duration_s;
  flags.requests.text = "hello";
  return flags;
}

std::string WriteWorkload(const std::string& yaml) {
  const std::string path = ScratchPath("workload.yaml");
  std::ofstream(path) << yaml;
  return path;
}

// Before the first request is sent.
TEST(RunTest, WhatCannotWorkIsSaidFirst) {
  ScriptedServer server({});
  const auto fault = [&](const std::function<void(RunFlags&)>& change) {
    RunFlags flags = MakeFlags(100, 0.1);
    flags.target = server.target();
    change(flags);
    return std::string(RunLoadTest(flags, "test").status().message());
  };
  EXPECT_THAT(fault([](RunFlags& flags) { flags.json_file = "/"; }), HasSubstr("--json is '/'"));
  EXPECT_THAT(fault([](RunFlags& flags) { flags.log_file = "/no/log"; }),
              HasSubstr("--log is '/no/log'"));
  EXPECT_THAT(fault([](RunFlags& flags) {
                flags.json_file = ScratchPath("one");
                flags.log_file = ScratchPath("./one");
              }),
              HasSubstr("as --json; accepted: another file"));
  EXPECT_THAT(fault([](RunFlags& flags) { flags.expected_codes = {"RESOURCE_EXHAUSTD"}; }),
              HasSubstr("did you mean 'RESOURCE_EXHAUSTED'?"));
  EXPECT_THAT(fault([](RunFlags& flags) { flags.target = "127.0.0.1"; }),
              HasSubstr("--target is '127.0.0.1'; accepted: host:port"));
  EXPECT_EQ(fault([](RunFlags& flags) { flags.requests.model = "wirte"; }),
            "generate_stream: model is 'wirte'; accepted: write; did you mean 'write'?");
  EXPECT_EQ(fault([](RunFlags& flags) { flags.requests.model = "embed"; }),
            "generate_stream: model is 'embed', which cannot do it; accepted: write");
  EXPECT_THAT(fault([](RunFlags& flags) {
                flags.csv_file = ScratchPath("one");
                flags.html_file = ScratchPath("./one");
              }),
              HasSubstr("as --html; accepted: another file"));
  EXPECT_THAT(fault([](RunFlags& flags) { flags.phases = {"5"}; }), HasSubstr("--phase is '5'"));
  EXPECT_THAT(fault([](RunFlags& flags) { flags.phases = {"0:5"}; }),
              HasSubstr("--phase asks for 0 requests"));
  EXPECT_THAT(fault([](RunFlags& flags) {
                flags.phases = {"1:80000", "1:80000"};
              }),
              HasSubstr("in at most 86400 s"));
  EXPECT_THAT(fault([](RunFlags& flags) { flags.metrics_url = "127.0.0.1:1"; }),
              HasSubstr("--metrics is '127.0.0.1:1'; accepted: http://"));
  EXPECT_THAT(fault([](RunFlags& flags) { flags.metrics_url = "http://127.0.0.1:1/"; }),
              HasSubstr("--metrics http://127.0.0.1:1/: "));
  EXPECT_EQ(server.num_requests(), 0);
  EXPECT_THAT(fault([](RunFlags& flags) { flags.log_file = "/dev/full"; }),
              HasSubstr("--log /dev/full was not written to its end"));
}

TEST(RunFlags, AClosedLoopHasNoRate) {
  for (const char* of_open_loop : {"--rate=5", "--arrivals=burst", "--burst-size=2"}) {
    CLI::App app;
    RunFlags flags;
    AddRunFlags(app, flags);
    const char* const arguments[] = {"run", "--concurrency", "3", of_open_loop};
    EXPECT_THAT(std::string(ParseArguments(app, 4, arguments).status().message()),
                HasSubstr("excludes"));
  }
}

TEST(RunTest, MeasuresWhatTheServerDoes) {
  ScriptedServer server({.delay = milliseconds(20), .token_delay = milliseconds(5)});
  RunFlags flags = MakeFlags(100, 1);
  flags.warmup_s = 0.2;
  flags.requests.max_new_tokens = "5";
  const auto [succeeded, result] = Load(server, flags);
  ASSERT_TRUE(succeeded.ok()) << succeeded.status();
  EXPECT_TRUE(*succeeded);
  const json& total = result["total"];
  const int num_requests = total["requests"].get<int>();
  EXPECT_EQ(num_requests + result["rates"]["warmup_requests"].get<int>(), server.num_requests());
  EXPECT_EQ(total["endings"]["ok"], num_requests);
  EXPECT_EQ(total["generated_tokens"], 5 * num_requests);
  EXPECT_EQ(total["inter_token"]["count"], 4 * num_requests);
  EXPECT_GE(total["time_to_first_token"]["min_ms"].get<double>(), 20);
  EXPECT_GE(total["time_per_output_token"]["p50_ms"].get<double>(), 5);
  EXPECT_GE(total["end_to_end"]["min_ms"].get<double>(), 40);
  EXPECT_NEAR(result["rates"]["achieved_rate_per_s"].get<double>(), 100, 50);
}

// A step from 50 to 150 requests a second, with the seconds of both in the report.
TEST(RunTest, PhasesFollowEachOther) {
  ScriptedServer server({.delay = milliseconds(5), .fail_every = 20});
  RunFlags flags = MakeFlags(1, 1);
  flags.arrivals = "constant";
  flags.phases = {"50:1", "50..250:1"};
  flags.requests.kinds = {"generate"};
  const auto [succeeded, result] = Load(server, flags);
  ASSERT_TRUE(succeeded.ok()) << succeeded.status();
  EXPECT_EQ(result["total"]["requests"], 200);
  EXPECT_EQ(result["load"]["rate_per_s"], 100.0);
  EXPECT_EQ(result["load"]["phases"], json({"50:1", "50..250:1"}));
  const json& seconds = result["seconds"];
  ASSERT_GE(seconds.size(), 2U);
  EXPECT_EQ(seconds[0]["asked_per_s"], 50.0);
  EXPECT_EQ(seconds[1]["asked_per_s"], 150.0);
  int ok = 0, error = 0;
  for (const json& second : seconds) {
    ok += second["ok"].get<int>();
    error += second["error"].get<int>();
  }
  EXPECT_EQ(ok, 190);
  EXPECT_EQ(error, 10);
  EXPECT_EQ(result["errors"]["RESOURCE_EXHAUSTED"]["count"], 10);
}

// A server that stops for 200 ms keeps 200/s * 200 ms = 40 of 200 requests waiting.
TEST(RunTest, AStallIsNotOmitted) {
  const Script script{.stall_at = 100, .stall = milliseconds(200)};
  for (const int max_in_flight : {10'000, 1}) {
    ScriptedServer server(script);
    RunFlags flags = MakeFlags(200, 1);
    flags.arrivals = "constant";
    flags.requests.kinds = {"tokenize"};
    flags.requests.model = "write";
    // Even when the sender itself has to wait for the server.
    flags.max_in_flight = max_in_flight;
    const auto [succeeded, result] = Load(server, flags);
    ASSERT_TRUE(succeeded.ok()) << succeeded.status();
    EXPECT_EQ(result["total"]["requests"], 200);
    const json& latency = result["total"]["end_to_end"];
    EXPECT_GE(latency["p99_ms"].get<double>(), 150) << max_in_flight;
    EXPECT_GE(latency["p90_ms"].get<double>(), 80) << max_in_flight;
  }
}

TEST(RunTest, AClosedLoopKeepsItsConcurrency) {
  ScriptedServer server({.delay = milliseconds(10)});
  RunFlags flags = MakeFlags(1, 10);
  flags.concurrency = 4;
  flags.num_requests = 80;
  flags.requests.kinds = {"generate"};
  const auto [succeeded, result] = Load(server, flags);
  ASSERT_TRUE(succeeded.ok()) << succeeded.status();
  EXPECT_EQ(server.num_requests(), 80);
  EXPECT_TRUE(result["load"]["rate_per_s"].is_null());
  // At most four every 10 ms.
  EXPECT_LE(result["rates"]["requests_per_s"].get<double>(), 400);
  EXPECT_GE(result["rates"]["elapsed_s"].get<double>(), 0.2);
}

TEST(RunTest, ClientsTakeTurns) {
  ScriptedServer server({});
  RunFlags flags = MakeFlags(1000, 10);
  flags.requests.kinds = {"generate"};
  flags.num_requests = 7;
  flags.num_clients = 3;
  flags.log_file = ScratchPath("clients.jsonl");
  const auto [succeeded, result] = Load(server, flags);
  ASSERT_TRUE(succeeded.ok() && *succeeded) << succeeded.status();
  std::vector<std::string> logged;
  std::ifstream log(flags.log_file);
  for (std::string line; std::getline(log, line);) {
    const json record = json::parse(line);
    EXPECT_EQ(record["client"], "client-" + std::to_string(record["index"].get<int>() % 3));
    logged.push_back(record["client"]);
  }
  EXPECT_EQ(logged.size(), 7U);
  EXPECT_THAT(server.clients(), ::testing::UnorderedElementsAreArray(logged));
  flags.num_clients = 0;
  Load(server, flags);
  EXPECT_EQ(server.clients().size(), 7U);  // nobody was named
}

struct SentAndEnded {
  double intended, sent, end;
};

// Every request of a run that succeeded, in the order of sending.
std::vector<SentAndEnded> RunBatched(const Script& script, RunFlags flags) {
  ScriptedServer server(script);
  flags.log_file = ScratchPath("batches.jsonl");
  const auto [succeeded, result] = Load(server, flags);
  EXPECT_TRUE(succeeded.ok() && *succeeded) << succeeded.status();
  EXPECT_EQ(result["load"]["batching"], flags.batching);
  std::vector<SentAndEnded> requests;
  std::ifstream log(flags.log_file);
  for (std::string line; std::getline(log, line);) {
    const json record = json::parse(line);
    requests.push_back({record["intended_s"], record["sent_s"], record["end_s"]});
  }
  std::sort(requests.begin(), requests.end(),
            [](const auto& a, const auto& b) { return a.sent < b.sent; });
  return requests;
}

// Ten arrive at once: batches of four, four and two, each after the longest of the one before.
TEST(RunTest, AStaticBatchWaitsForTheWholeBatchBefore) {
  RunFlags flags = MakeFlags(1000, 10);
  flags.arrivals = "burst";
  flags.burst_size = 10;
  flags.num_requests = 10;
  flags.batching = "static:4";
  flags.requests.max_new_tokens = "uniform:1:9";
  const auto requests =
      RunBatched({.delay = milliseconds(100), .token_delay = milliseconds(5)}, flags);
  ASSERT_EQ(requests.size(), 10U);
  for (const size_t begin : {4U, 8U}) {
    double end_of_before = 0;
    for (size_t i = begin - 4; i < begin; ++i) {
      end_of_before = std::max(end_of_before, requests[i].end);
      EXPECT_EQ(requests[i].intended, 0);  // the wait counts as latency
      // Together: the batch had gone before its first answer was in.
      EXPECT_LE(requests[i].sent, requests[begin - 4].end) << i;
    }
    EXPECT_GE(requests[begin].sent, end_of_before);
  }
}

TEST(RunTest, SerialSendsOneAtATime) {
  RunFlags flags = MakeFlags(500, 10);
  flags.num_requests = 40;
  flags.batching = "serial";
  flags.num_threads = 2;
  const auto requests = RunBatched({.delay = milliseconds(4)}, flags);
  ASSERT_EQ(requests.size(), 40U);
  for (size_t i = 1; i < requests.size(); ++i) EXPECT_GE(requests[i].sent, requests[i - 1].end);
}

// At 20 a second, a batch of eight would take 400 ms to fill.
TEST(RunTest, ABatchDoesNotWaitToBeFull) {
  RunFlags flags = MakeFlags(20, 10);
  flags.arrivals = "constant";
  flags.num_requests = 8;
  flags.batching = "static:8";
  const auto requests = RunBatched({}, flags);
  ASSERT_EQ(requests.size(), 8U);
  EXPECT_LT(requests[0].sent - requests[0].intended, 0.3);
}

TEST(RunTest, BatchingIsChecked) {
  EXPECT_EQ(ParseBatching("none")->size, 0U);
  EXPECT_EQ(ParseBatching("serial")->size, 1U);
  EXPECT_EQ(ParseBatching("static:8")->size, 8U);
  for (const char* wrong :
       {"", "static", "static:", "static:0", "static:-1", "static:8x", "static:10001", "dynamic"}) {
    EXPECT_EQ(ParseBatching(wrong).status().code(), absl::StatusCode::kInvalidArgument) << wrong;
  }
  RunFlags flags;
  flags.batching = "static:8";
  flags.concurrency = 4;
  EXPECT_EQ(RunLoadTest(flags, "test").status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(RunTest, ARefusalOfAShortDeadlineIsNoFailure) {
  ScriptedServer server({.fail_every = 4});
  RunFlags flags = MakeFlags(100, 1);
  flags.requests.deadline_share = 1;
  flags.requests.deadline_ms = "30000";
  const auto [succeeded, result] = Load(server, flags);
  ASSERT_TRUE(succeeded.ok()) << succeeded.status();
  EXPECT_TRUE(*succeeded) << result["error_examples"];
  EXPECT_GT(result["total"]["endings"]["deadline"], 5);
  EXPECT_EQ(result["total"]["codes"]["RESOURCE_EXHAUSTED"], result["total"]["endings"]["deadline"]);
}

TEST(RunTest, CancellationsAndDeadlinesAreCountedAndNoFailures) {
  ScriptedServer server({.token_delay = milliseconds(10)});
  RunFlags flags = MakeFlags(100, 1);
  flags.requests.max_new_tokens = "10";  // 90 ms
  flags.requests.cancel_share = 0.3;
  flags.requests.cancel_after_ms = "uniform:5:20";
  flags.requests.deadline_share = 0.3;
  flags.requests.deadline_ms = "uniform:5:20";
  flags.verify = true;
  flags.num_distinct = 1;
  const auto [succeeded, result] = Load(server, flags);
  ASSERT_TRUE(succeeded.ok()) << succeeded.status();
  EXPECT_TRUE(*succeeded) << result["error_examples"];
  const json& endings = result["total"]["endings"];
  EXPECT_GT(endings["cancelled"], 5);
  EXPECT_GT(endings["deadline"], 5);
  EXPECT_GT(endings["ok"], 5);
  EXPECT_FALSE(endings.contains("error"));
  EXPECT_EQ(result["total"]["codes"]["CANCELLED"], endings["cancelled"]);
  EXPECT_EQ(result["total"]["end_to_end"]["count"], endings["ok"]);
  EXPECT_EQ(result["verification"]["mismatches"], 0);
  // Streams that were cut before their first token bring nothing to compare.
  EXPECT_GE(result["verification"]["checked"], endings["ok"]);
  EXPECT_LE(result["verification"]["checked"], result["total"]["requests"]);
}

TEST(RunTest, FailuresFailTheRunUnlessExpected) {
  ScriptedServer server({.fail_every = 10});
  RunFlags flags = MakeFlags(500, 10);
  flags.num_requests = 100;
  Outcome outcome = Load(server, flags);
  ASSERT_TRUE(outcome.succeeded.ok()) << outcome.succeeded.status();
  EXPECT_FALSE(*outcome.succeeded);
  EXPECT_EQ(outcome.result["total"]["codes"]["RESOURCE_EXHAUSTED"], 10);
  EXPECT_EQ(outcome.result["total"]["endings"]["error"], 10);
  flags.expected_codes = {"RESOURCE_EXHAUSTED"};
  EXPECT_TRUE(*Load(server, flags).succeeded);
}

constexpr char kEveryKind[] = R"(
distinct: 4
requests:
  - {kind: generate, prompt: {words: uniform:1:9}}
  - {kind: generate_stream, prompt: {tokens: uniform:1:9}}
  - {kind: generate_many, prompt: {words: uniform:1:9}, batch: 5}
  - {kind: encode, prompt: {tokens: uniform:1:9}, batch: 3}
  - {kind: encode_many, prompt: {words: uniform:1:9}, batch: 3}
  - {kind: score, prompt: {words: 3}, batch: 2}
  - {kind: classify, prompt: {tokens: uniform:1:9}, batch: 4, options: {function: SCORE_FUNCTION_NONE}}
  - {kind: classify_tokens, prompt: {words: uniform:1:9}, batch: 3, options: {aggregation: AGGREGATION_SIMPLE}}
  - {kind: fill_mask, prompt: {words: uniform:1:9}, batch: 2}
  - {kind: rerank, prompt: {words: uniform:1:9}, batch: 3}
  - {kind: rerank, name: best, prompt: {words: uniform:1:9}, batch: 3, options: {top: 2}}
  - {kind: tokenize, model: write, prompt: {words: 3}}
)";

TEST(RunTest, EveryKindIsSentAndVerified) {
  ScriptedServer server({.delay = microseconds(500)});
  RunFlags flags = MakeFlags(300, 1);
  flags.workload_file = WriteWorkload(kEveryKind);
  flags.verify = true;
  flags.num_connections = 2;
  flags.num_threads = 2;
  const auto [succeeded, result] = Load(server, flags);
  ASSERT_TRUE(succeeded.ok()) << succeeded.status();
  EXPECT_TRUE(*succeeded) << result["verification"] << result["error_examples"];
  ASSERT_EQ(result["classes"].size(), 12U);
  const std::vector<int> items = {1, 1, 5, 3, 3, 2, 4, 3, 2, 3, 2, 1};
  for (size_t i = 0; i < items.size(); ++i) {
    const json& one = result["classes"][i];
    EXPECT_GT(one["requests"], 10) << one["kind"];
    EXPECT_EQ(one["items"], items[i] * one["requests"].get<int>()) << one["kind"];
  }
}

TEST(RunTest, VerificationFindsOneWrongToken) {
  ScriptedServer server({.wrong_from = 60});
  RunFlags flags = MakeFlags(500, 10);
  flags.num_requests = 80;
  flags.verify = true;
  flags.num_distinct = 1;
  const auto [succeeded, result] = Load(server, flags);
  ASSERT_TRUE(succeeded.ok()) << succeeded.status();
  EXPECT_FALSE(*succeeded);
  EXPECT_GT(result["verification"]["mismatches"], 0);
  EXPECT_THAT(result["verification"]["examples"][0].get<std::string>(), HasSubstr("token 7"));
}

TEST(RunTest, UnansweredRequestsAreCutAfterTheDrain) {
  ScriptedServer server({.token_delay = milliseconds(20)});
  RunFlags flags = MakeFlags(50, 0.2);
  flags.requests.max_new_tokens = "100";
  flags.drain_s = 0.1;
  const auto [succeeded, result] = Load(server, flags);
  ASSERT_TRUE(succeeded.ok()) << succeeded.status();
  EXPECT_EQ(result["total"]["endings"]["stopped"], result["total"]["requests"]);
}

TEST(RunTest, OnlyLoopbackWithoutPermission) {
  for (const char* target : {"localhost:1", "127.0.0.1:5", "127.9.9.9:5", "[::1]:5", "::1",
                             "unix:/tmp/x", "ipv4:127.0.0.1:1", "dns:///localhost:1"}) {
    EXPECT_TRUE(IsLoopback(target)) << target;
  }
  for (const char* target : {"example.org:1", "10.0.0.1:5", "0.0.0.0:5", "[::]:5",
                             "[2001:db8::1]:5", "127.example.org:5", "localhost.example.org:1",
                             "dns://8.8.8.8/localhost:1", "ipv4:127.0.0.1:1,10.0.0.1:1"}) {
    EXPECT_FALSE(IsLoopback(target)) << target;
    RunFlags flags;
    flags.target = target;
    EXPECT_EQ(RunLoadTest(flags, "test").status().code(), absl::StatusCode::kPermissionDenied);
  }
}

TEST(RunTest, AnInterruptReportsWhatWasDone) {
  ScriptedServer server({});
  std::thread interrupter([] {
    std::this_thread::sleep_for(milliseconds(500));
    raise(SIGINT);
  });
  const auto [succeeded, result] = Load(server, MakeFlags(100, 60));
  interrupter.join();
  ASSERT_TRUE(succeeded.ok()) << succeeded.status();
  EXPECT_EQ(result["interrupted"], true);
  EXPECT_GT(result["total"]["requests"], 5);
  EXPECT_LT(result["rates"]["elapsed_s"].get<double>(), 10);
}

}  // namespace
}  // namespace beamline::loadtest::run_test
