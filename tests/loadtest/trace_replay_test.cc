// Traces that a run replays and records, against a server in this process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <iterator>
#include <string>

#include "loadtest/run.h"
#include "loadtest/workload/trace.h"
#include "nlohmann/json.hpp"
#include "tests/loadtest/scripted_server.h"
#include "tests/scratch_path.h"

namespace beamline::loadtest::trace_replay_test {
namespace {

using ::testing::HasSubstr;

std::string FileText(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string WriteTraceFile(const std::string& csv) {
  const std::string path = ScratchPath("given.csv");
  std::ofstream(path) << csv;
  return path;
}

// Replays `trace` and returns what was recorded.
std::string Replayed(const ScriptedServer& server, const std::string& trace, RunFlags flags = {}) {
  flags.target = server.target();
  flags.trace_file = trace;
  flags.record_trace_file = ScratchPath("replayed.csv");
  const auto succeeded = RunLoadTest(flags, "test");
  EXPECT_TRUE(succeeded.ok()) << succeeded.status();
  return FileText(flags.record_trace_file);
}

TEST(TraceReplayTest, WhatWasRecordedReplaysToTheSame) {
  ScriptedServer server({});
  RunFlags flags;
  flags.target = server.target();
  flags.rate = 100;
  flags.duration_s = 0.5;
  flags.warmup_s = 0.1;
  flags.requests.kinds = {"generate", "generate_stream=2"};
  flags.requests.words = "uniform:1:20";
  flags.requests.max_new_tokens = "uniform:1:9";
  flags.record_trace_file = ScratchPath("recorded.csv");
  ASSERT_TRUE(RunLoadTest(flags, "test").value_or(false));
  const std::string recorded = FileText(flags.record_trace_file);
  const auto trace = ParseTrace("recorded", recorded);
  ASSERT_TRUE(trace.ok()) << trace.status();
  EXPECT_EQ(trace->size(), static_cast<size_t>(server.num_requests()));
  EXPECT_GT(trace->size(), 20U);
  EXPECT_EQ(Replayed(server, flags.record_trace_file), recorded);
}

TEST(TraceReplayTest, IsTheSameWhenRequestsFail) {
  ScriptedServer server({.fail_every = 3});
  const std::string csv =
      "arrival_s,prompt_tokens,output_tokens\n0.000000000,3,7\n0.010000001,10,1\n"
      "0.010000001,1,2\n0.020000000,5,5\n";
  EXPECT_EQ(Replayed(server, WriteTraceFile(csv)), csv);
}

TEST(TraceReplayTest, ReportsWhatItReplayed) {
  ScriptedServer server({});
  RunFlags flags;
  flags.trace_speed = 10;
  flags.trace_lengths = "clip";
  flags.num_requests = 4;
  flags.json_file = ScratchPath("replay.json");
  const std::string recorded = Replayed(server,
                                        WriteTraceFile("TIMESTAMP,ContextTokens,GeneratedTokens\n"
                                                       "2024-01-01 00:00:07,20,5\n"
                                                       "2024-01-01 00:00:00,10,4\n"
                                                       "2024-01-01 00:00:02,2000,3\n"
                                                       "2024-01-01 00:00:03,30,2\n"
                                                       "2024-01-01 00:00:09,1,1\n"),
                                        flags);
  EXPECT_EQ(recorded,
            "arrival_s,prompt_tokens,output_tokens\n0.000000000,10,4\n0.200000000,1000,3\n"
            "0.300000000,30,2\n0.700000000,20,5\n");
  const auto result = nlohmann::json::parse(FileText(flags.json_file));
  EXPECT_EQ(result["load"]["arrivals"], "trace");
  EXPECT_EQ(result["load"]["trace"]["requests"], 4);
  EXPECT_EQ(result["load"]["trace"]["clipped"], 1);
  EXPECT_EQ(result["load"]["trace"]["speed"], 10.0);
  EXPECT_EQ(result["total"]["requests"], 4);
  EXPECT_EQ(result["total"]["prompt_tokens"], 1060);
  EXPECT_EQ(result["total"]["generated_tokens"], 14);
  EXPECT_EQ(result["seconds"][0]["asked_per_s"], 4.0);
}

// The arrivals themselves, not only what is written of them.
TEST(TraceReplayTest, SendsNothingBeforeItsTime) {
  ScriptedServer server({});
  RunFlags flags;
  flags.log_file = ScratchPath("replay.jsonl");
  Replayed(server, WriteTraceFile("arrival_s,prompt_tokens,output_tokens\n0.1,2,2\n0.3,2,2\n"),
           flags);
  std::ifstream log(flags.log_file);
  int count = 0;
  for (std::string line; std::getline(log, line); ++count) {
    const auto record = nlohmann::json::parse(line);
    EXPECT_EQ(record["intended_s"].get<double>(), record["index"] == 0 ? 0.1 : 0.3);
    EXPECT_GE(record["sent_s"].get<double>(), record["intended_s"].get<double>());
  }
  EXPECT_EQ(count, 2);
}

// Of a text that the server counts, and of an answer that may end early, a failure tells no length.
TEST(TraceReplayTest, WhatHasNoKnownLengthIsLeftOut) {
  ScriptedServer server({.fail_every = 2});
  RunFlags flags;
  flags.target = server.target();
  flags.rate = 200;
  flags.num_requests = 10;
  flags.requests.text = "hello";
  flags.record_trace_file = ScratchPath("half.csv");
  ASSERT_TRUE(RunLoadTest(flags, "test").ok());
  const auto trace = ParseTrace("half", FileText(flags.record_trace_file));
  ASSERT_TRUE(trace.ok()) << trace.status();
  ASSERT_EQ(trace->size(), 5U);
  EXPECT_EQ((*trace)[0].prompt_tokens, 5);
  EXPECT_EQ((*trace)[0].output_tokens, 8);
}

TEST(TraceReplayTest, WhatCannotBeReplayedIsSaidFirst) {
  ScriptedServer server({});
  const std::string good = WriteTraceFile("arrival_s,prompt_tokens,output_tokens\n1,2000,5\n");
  const auto fault = [&](const std::function<void(RunFlags&)>& change) {
    RunFlags flags;
    flags.target = server.target();
    flags.trace_file = good;
    change(flags);
    return std::string(RunLoadTest(flags, "test").status().message());
  };
  EXPECT_THAT(fault([](RunFlags&) {}), HasSubstr("given.csv:2: 2000 prompt and 5 output tokens"));
  EXPECT_THAT(fault([](RunFlags& flags) { flags.trace_file = "/none.csv"; }),
              HasSubstr("--trace is '/none.csv'"));
  EXPECT_THAT(fault([](RunFlags& flags) { flags.trace_lengths = "cut"; }),
              HasSubstr("--trace-lengths is 'cut'; accepted: refuse, clip"));
  EXPECT_THAT(fault([](RunFlags& flags) { flags.trace_speed = 1e-6; }),
              HasSubstr("takes 1000000 s; accepted: at most 86400 s"));
  EXPECT_THAT(fault([](RunFlags& flags) { flags.warmup_s = 2; }),
              HasSubstr("--warmup is 2; accepted: less than the 1.000 s"));
  EXPECT_THAT(fault([](RunFlags& flags) { flags.requests.kinds = {"encode"}; }),
              HasSubstr("kind is 'encode'; accepted with --trace: generate, generate_stream"));
  EXPECT_THAT(fault([](RunFlags& flags) { flags.concurrency = 2; }), HasSubstr("--trace excludes"));
  EXPECT_THAT(fault([](RunFlags& flags) {
                flags.trace_file.clear();
                flags.requests.kinds = {"tokenize"};
                flags.requests.model = "write";
                flags.record_trace_file = ScratchPath("record.csv");
              }),
              HasSubstr("accepted with --record-trace: generate, generate_stream"));
  EXPECT_EQ(server.num_requests(), 0);
}

}  // namespace
}  // namespace beamline::loadtest::trace_replay_test
