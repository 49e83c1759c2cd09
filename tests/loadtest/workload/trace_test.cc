// Traces in the columns of each public form, and what is no trace.
#include "loadtest/workload/trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <tuple>
#include <vector>

#include "loadtest/workload/arrivals.h"
#include "loadtest/workload/random.h"
#include "loadtest/workload/trace_lengths.h"
#include "tests/scratch_path.h"

namespace beamline::loadtest::trace_test {
namespace {

using std::chrono::nanoseconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Times in nanoseconds, and lengths.
std::vector<std::tuple<int64_t, int, int>> Parsed(const std::string& csv) {
  const auto trace = ParseTrace("trace", csv);
  EXPECT_TRUE(trace.ok()) << trace.status() << csv;
  std::vector<std::tuple<int64_t, int, int>> entries;
  if (!trace.ok()) return entries;
  for (const TraceEntry& entry : *trace) {
    entries.emplace_back(entry.time.count(), entry.prompt_tokens, entry.output_tokens);
  }
  return entries;
}

std::string FaultOf(const std::string& csv) {
  return std::string(ParseTrace("trace", csv).status().message());
}

TEST(TraceTest, OfEachForm) {
  EXPECT_THAT(Parsed("arrival_s,prompt_tokens,output_tokens\n0.5,10,20\n1.25,30,0\n"),
              ElementsAre(std::tuple(500'000'000, 10, 20), std::tuple(1'250'000'000, 30, 0)));
  EXPECT_THAT(Parsed("TIMESTAMP,ContextTokens,GeneratedTokens\n"
                     "2023-11-16 18:15:46.6805900,374,44\n"
                     "2023-11-16 18:15:50.9951690,396,109\n"
                     "2023-11-17 00:00:00,1,2\n"),
              ElementsAre(std::tuple(0, 374, 44), std::tuple(4'314'579'000, 396, 109),
                          std::tuple(20'653'319'410'000, 1, 2)));
  EXPECT_THAT(Parsed("TIMESTAMP,ContextTokens,GeneratedTokens\n"
                     "2024-05-12T00:00:00.009930+00:00,1,2\n2024-05-12 02:00:01.009930+02:00,3,4\n"
                     "2024-05-11 19:00:02.00993-05:00,5,6\n2024-05-12T00:00:03.009930Z,7,8\n"),
              ElementsAre(std::tuple(0, 1, 2), std::tuple(1'000'000'000, 3, 4),
                          std::tuple(2'000'000'000, 5, 6), std::tuple(3'000'000'000, 7, 8)));
  EXPECT_THAT(Parsed("timestamp,input_length,output_length,hash_ids\n"
                     "1000,6758,500,\"[0, 1, 2]\"\n1003.5,7322,490,\"[0]\"\n"),
              ElementsAre(std::tuple(0, 6758, 500), std::tuple(3'500'000, 7322, 490)));
  EXPECT_THAT(Parsed("Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
                     "5,ChatGPT,472,18,490,Conversation log\n45,GPT-4,1,2,3,API log\n"),
              ElementsAre(std::tuple(0, 472, 18), std::tuple(40'000'000'000, 1, 2)));
}

TEST(TraceTest, AnyOrderOfLinesAndColumns) {
  EXPECT_THAT(Parsed("output_tokens,arrival_s,x,prompt_tokens\n1,3,,2\n4,1,,5\n6,3,,7\n8,1,,9\n"),
              ElementsAre(std::tuple(1'000'000'000, 5, 4), std::tuple(1'000'000'000, 9, 8),
                          std::tuple(3'000'000'000, 2, 1), std::tuple(3'000'000'000, 7, 6)));
}

TEST(TraceTest, AnyWriterOfCsv) {
  EXPECT_THAT(Parsed("\xEF\xBB\xBF\"arrival_s\",\"prompt_tokens\" , output_tokens\r\n\r\n"
                     "\"0.5\", 1 ,\"2\"\r\n   \n1e0,3,4"),
              ElementsAre(std::tuple(500'000'000, 1, 2), std::tuple(1'000'000'000, 3, 4)));
  EXPECT_THAT(Parsed("a \"\"b\"\",\"x\"\"y,z\",arrival_s,prompt_tokens,output_tokens\n"
                     "\"1,\"\"2\",,0,1,2\n"),
              ElementsAre(std::tuple(0, 1, 2)));
}

TEST(TraceTest, WhatIsWrongIsNamedWithLineAndColumn) {
  const std::string head = "arrival_s,prompt_tokens,output_tokens\n1,2,3\n";
  const std::string azure = "TIMESTAMP,ContextTokens,GeneratedTokens\n";
  const std::pair<std::string, const char*> kCases[] = {
      {"", "trace holds no request"},
      {"\n\r\n", "trace holds no request"},
      {"arrival_s,prompt_tokens,output_tokens\n", "trace holds no request"},
      {"a,b\n1,2\n",
       "trace:1: columns are 'a,b'; accepted: arrival_s,prompt_tokens,output_tokens or "},
      {"TIMESTAMP,ContextTokens\n", "accepted: TIMESTAMP,ContextTokens,GeneratedTokens"},
      {"arrival_s,arrival_s,prompt_tokens,output_tokens\n",
       "trace:1: column arrival_s is there twice"},
      {"\"arrival_s,prompt_tokens\n", "trace:1: a quote is not closed"},
      {"\xFF\xFE"
       "a\n",
       "trace:1: columns are"},
      {head + "1,2\n", "trace:3: 2 columns; accepted: 3"},
      {head + "1,2,3,4\n", "trace:3: 4 columns; accepted: 3"},
      {head + "1,\"2,3\n", "trace:3: a quote is not closed"},
      {head + "1,\"2\"x,3\n", "trace:3: a quote is not closed"},
      {head + "nan,2,3\n", "trace:3: arrival_s is 'nan'; accepted: 0 to 1e+09"},
      {head + "inf,2,3\n", "trace:3: arrival_s is 'inf'"},
      {head + "-0.5,2,3\n", "trace:3: arrival_s is '-0.5'"},
      {head + "1e10,2,3\n", "trace:3: arrival_s is '1e10'"},
      {head + "1e999,2,3\n", "trace:3: arrival_s is '1e999'"},
      {head + ",2,3\n", "trace:3: arrival_s is ''"},
      {head + "0x1,2,3\n", "trace:3: arrival_s is '0x1'"},
      {head + "1,-2,3\n",
       "trace:3: prompt_tokens is '-2'; accepted: a whole number of 0 to 10000000"},
      {head + "1,2,1.5\n", "trace:3: output_tokens is '1.5'"},
      {head + "1,2,nan\n", "trace:3: output_tokens is 'nan'"},
      {head + "1,99999999999999999999,3\n", "trace:3: prompt_tokens is '99999999999999999999'"},
      {head + "1,10000001,3\n", "trace:3: prompt_tokens is '10000001'"},
      {azure + "2023-02-30 00:00:00,1,2\n",
       "trace:2: TIMESTAMP is '2023-02-30 00:00:00'; accepted: a date"},
      {azure + "2023-11-16 25:00:00,1,2\n", "TIMESTAMP is '2023-11-16 25:00:00'"},
      {azure + "2023-11-16,1,2\n", "TIMESTAMP is '2023-11-16'"},
      {azure + "2023-11-16 18:15:46.,1,2\n", "TIMESTAMP is"},
      {azure + "2023-11-16 18:15:46.1234567890,1,2\n", "TIMESTAMP is"},
      {azure + "2023-11-16 18:15:46+9,1,2\n", "TIMESTAMP is"},
      {azure + "2023-11-16 18:15:46x,1,2\n", "TIMESTAMP is"},
      {azure + "2023--1-16 18:15:46,1,2\n", "TIMESTAMP is"},
      {azure + "0001-01-01 00:00:00,1,2\n", "TIMESTAMP is"},
      {azure + "17,1,2\n", "TIMESTAMP is '17'"}};
  for (const auto& [csv, expected] : kCases) EXPECT_THAT(FaultOf(csv), HasSubstr(expected)) << csv;
  // Neither long nor hostile cells make a long or a hostile message.
  const std::string fault = FaultOf(head + std::string(100'000, '\x1b') + ",2,3\n");
  EXPECT_LT(fault.size(), 400U);
  EXPECT_EQ(fault.find('\x1b'), std::string::npos);
}

TEST(TraceTest, AnyBytesAreReadOrRefused) {
  const std::string text = "arrival_s,prompt_tokens,output_tokens\n1.5,22,333\n\"2\",4,5\r\n";
  Random random(1);
  for (int i = 0; i < 20'000; ++i) {
    std::string csv = text;
    for (int changes = 0; changes < 3; ++changes) {
      const auto at = static_cast<size_t>(random.UniformInt(0, csv.size() - 1));
      switch (random.UniformInt(0, 2)) {
        case 0:
          csv[at] = static_cast<char>(random.UniformInt(0, 255));
          break;
        case 1:
          csv.erase(at, 1);
          break;
        default:
          csv.insert(at, 1, ",\"\n-e."[random.UniformInt(0, 5)]);
          break;
      }
    }
    const auto trace = ParseTrace("trace", csv);
    if (!trace.ok()) continue;
    for (const TraceEntry& entry : *trace) {
      ASSERT_GE(entry.time.count(), 0);
      ASSERT_TRUE(entry.prompt_tokens >= 0 && entry.output_tokens >= 0);
    }
  }
}

TEST(TraceTest, IsReadAsItWasWritten) {
  Trace trace;
  Random random(2);
  int64_t time = 0;
  for (int i = 0; i < 2000; ++i) {
    time += random.UniformInt(0, 1 << 30) * random.UniformInt(0, 200);
    trace.push_back({.time = nanoseconds(time),
                     .prompt_tokens = static_cast<int32_t>(random.UniformInt(1, kMostTraceTokens)),
                     .output_tokens = static_cast<int32_t>(random.UniformInt(1, 5000))});
  }
  ASSERT_GT(time, int64_t{86'400} * 100'000'000);
  const std::string path = ScratchPath("trace.csv");
  std::ofstream(path) << TraceCsv(trace);
  const auto read = ReadTrace(path);
  ASSERT_TRUE(read.ok()) << read.status();
  ASSERT_EQ(read->size(), trace.size());
  for (size_t i = 0; i < trace.size(); ++i) {
    ASSERT_EQ((*read)[i].time, trace[i].time) << i;
    ASSERT_EQ((*read)[i].prompt_tokens, trace[i].prompt_tokens);
    ASSERT_EQ((*read)[i].output_tokens, trace[i].output_tokens);
  }
  EXPECT_EQ(TraceCsv(*read), TraceCsv(trace));
  EXPECT_THAT(std::string(ReadTrace(ScratchPath("none")).status().message()),
              HasSubstr("--trace is '"));
}

TEST(TraceTest, DecidesArrivalsAndRates) {
  ArrivalOptions options;
  options.trace = std::make_shared<const Trace>(
      Trace{{.time = nanoseconds(5)}, {.time = nanoseconds(5)}, {.time = std::chrono::seconds(2)}});
  Arrivals arrivals(options);
  EXPECT_EQ(arrivals.Next().count(), 5);
  EXPECT_EQ(arrivals.Next().count(), 5);
  EXPECT_EQ(arrivals.Next(), std::chrono::seconds(2));
  EXPECT_GT(arrivals.Next(), std::chrono::hours(24));
  EXPECT_THAT(AskedPerSecond(options, 2.5), ElementsAre(2, 0, 1));
}

Workload GenerationWorkload() {
  Workload workload;
  RequestClass& of = workload.classes.emplace_back();
  of.name = "chat";
  of.vocab_size = 1000;
  return workload;
}

TEST(TraceLengthsTest, WhatIsTooLongIsRefusedOrClipped) {
  Workload workload = GenerationWorkload();
  RequestClass& of = workload.classes[0];
  of.max_input_tokens = 50;
  of.max_total_tokens = 60;
  of.prompt_takes_positions = true;
  const RequestFactory factory(workload, 1);
  const Trace trace = {{{}, 50, 10, 2}, {{}, 40, 21, 3}, {{}, 51, 5, 4}, {{}, 0, 0, 5}};
  Trace refused = trace;
  const auto fit = [&](LongLengths lengths) {
    return FitTrace("t.csv", factory, lengths, refused);
  };
  EXPECT_EQ(
      std::string(fit(LongLengths::kRefuse).status().message()),
      "t.csv:3: 40 prompt and 21 output tokens; accepted of chat: at least 1 of each, prompts "
      "of at most 50, both together of at most 60; --trace-lengths clip cuts them");
  Trace clipped = trace;
  EXPECT_EQ(FitTrace("t.csv", factory, LongLengths::kClip, clipped).value(), 3);
  const std::vector<std::pair<int, int>> expected = {{50, 10}, {40, 20}, {50, 5}, {1, 1}};
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(std::pair(clipped[i].prompt_tokens, clipped[i].output_tokens), expected[i]) << i;
  }
  // A decoder behind an encoder has its positions for the answer alone.
  of.prompt_takes_positions = false;
  clipped = {{{}, 50, 60, 2}, {{}, 51, 61, 3}};
  EXPECT_EQ(FitTrace("t.csv", factory, LongLengths::kClip, clipped).value(), 1);
  EXPECT_EQ(std::pair(clipped[1].prompt_tokens, clipped[1].output_tokens), std::pair(50, 60));
  EXPECT_FALSE(ParseLongLengths("--trace-lengths", "cut").ok());
}

TEST(TraceLengthsTest, RequestsHaveTheLengthsOfTheirEntries) {
  Workload workload = GenerationWorkload();
  workload.classes[0].prompt.num_shared = 4;
  const Trace trace = {{{}, 3, 7, 2}, {{}, 10, 1, 3}, {{}, 10, 2, 4}};
  const RequestFactory factory(workload, 1, &trace);
  std::vector<v1::GenerateRequest> requests;
  for (size_t i = 0; i < trace.size(); ++i) {
    const Request request = factory.Make(i);
    requests.push_back(std::get<v1::GenerateRequest>(request.body));
    EXPECT_EQ(requests[i].prompt().ids().ids_size(), trace[i].prompt_tokens);
    EXPECT_EQ(requests[i].limits().max_new_tokens(), trace[i].output_tokens);
    EXPECT_TRUE(requests[i].limits().ignore_eos());
    EXPECT_EQ(factory.ClassOf(i), request.class_index);
  }
  const auto id = [&](size_t request, int at) { return requests[request].prompt().ids().ids(at); };
  for (int i = 0; i < 4; ++i) EXPECT_EQ(id(1, i), id(2, i));  // the shared beginning
  bool differ = false;
  for (int i = 4; i < 10; ++i) differ |= id(1, i) != id(2, i);
  EXPECT_TRUE(differ);
}

TEST(TraceLengthsTest, OtherKindsHaveNoLengths) {
  Workload workload = GenerationWorkload();
  EXPECT_TRUE(CheckTraceWorkload(workload).ok());
  workload.classes[0].kind = Kind::kEncode;
  EXPECT_EQ(CheckTraceWorkload(workload).message(),
            "chat: kind is 'encode'; accepted with --trace: generate, generate_stream");
  workload = GenerationWorkload();
  workload.num_distinct = 3;
  EXPECT_THAT(std::string(CheckTraceWorkload(workload).message()), HasSubstr("distinct is 3"));
}

}  // namespace
}  // namespace beamline::loadtest::trace_test
