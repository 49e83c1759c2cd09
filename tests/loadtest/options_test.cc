// The command line of beamline-loadtest: what each flag sets, and the workload it makes.
#include "loadtest/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "base/command_line.h"

namespace beamline::loadtest::options_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Arguments = std::vector<std::string>;

absl::StatusOr<RunFlags> Parse(const Arguments& arguments) {
  CLI::App app;
  RunFlags flags;
  AddRunFlags(app, flags);
  std::vector<const char*> argv = {"run"};
  for (const std::string& argument : arguments) argv.push_back(argument.c_str());
  const auto text = ParseArguments(app, static_cast<int>(argv.size()), argv.data());
  if (!text.ok()) return text.status();
  return flags;
}

absl::StatusOr<Workload> ParseWorkloadOf(const Arguments& arguments) {
  const auto flags = Parse(arguments);
  if (!flags.ok()) return flags.status();
  return LoadWorkload(*flags);
}

TEST(Options, EveryFlagOfTheLoadIsKept) {
  std::istringstream line(
      "--target 127.0.0.1:7 --allow-remote --arrivals burst --rate 0.5 --burst-size 3 "
      "--batching static:2 --duration 4.5 --warmup 1.5 --requests 99 --seed "
      "18446744073709551615 --connections 5 --clients 12 --threads 6 --max-in-flight 7 --timeout 8 "
      "--drain 9 --distinct 10 --verify --verify-tolerance 0.25 --expect-code ABORTED "
      "--expect-code INTERNAL --slo-ttft-ms 11 --slo-itl-ms 12 --slo-e2e-ms 13 --label "
      "l --json j --log g --html h --csv c --metrics m");
  const auto flags = Parse({std::istream_iterator<std::string>(line), {}});
  ASSERT_TRUE(flags.ok()) << flags.status();
  EXPECT_EQ(flags->target, "127.0.0.1:7");
  EXPECT_TRUE(flags->allow_remote);
  EXPECT_EQ(flags->arrivals, "burst");
  EXPECT_EQ(flags->rate, 0.5);
  EXPECT_EQ(flags->burst_size, 3);
  EXPECT_EQ(flags->batching, "static:2");
  EXPECT_EQ(flags->duration_s, 4.5);
  EXPECT_EQ(flags->warmup_s, 1.5);
  EXPECT_EQ(flags->num_requests, 99U);
  EXPECT_EQ(flags->seed, 18446744073709551615U);
  EXPECT_EQ(flags->num_connections, 5);
  EXPECT_EQ(flags->num_clients, 12);
  EXPECT_EQ(flags->num_threads, 6);
  EXPECT_EQ(flags->max_in_flight, 7);
  EXPECT_EQ(flags->timeout_s, 8);
  EXPECT_EQ(flags->drain_s, 9);
  EXPECT_EQ(flags->num_distinct, 10U);
  EXPECT_TRUE(flags->verify);
  EXPECT_EQ(flags->verify_tolerance, 0.25);
  EXPECT_THAT(flags->expected_codes, ElementsAre("ABORTED", "INTERNAL"));
  EXPECT_EQ(flags->slo.ttft_ms, 11);
  EXPECT_EQ(flags->slo.itl_ms, 12);
  EXPECT_EQ(flags->slo.e2e_ms, 13);
  EXPECT_EQ(flags->label, "l");
  EXPECT_EQ(flags->json_file, "j");
  EXPECT_EQ(flags->log_file, "g");
  EXPECT_EQ(flags->html_file, "h");
  EXPECT_EQ(flags->csv_file, "c");
  EXPECT_EQ(flags->metrics_url, "m");
  EXPECT_THAT(Parse({"--phase", "1:2", "--phase", "3..4:5"})->phases, ElementsAre("1:2", "3..4:5"));
  EXPECT_EQ(Parse({"--concurrency", "4"})->concurrency, 4);
  const auto traced = Parse({"--trace", "t", "--trace-speed", "2.5", "--trace-lengths", "clip",
                             "--record-trace", "r", "--requests", "3", "--shared", "4"});
  ASSERT_TRUE(traced.ok()) << traced.status();
  EXPECT_EQ(traced->trace_file, "t");
  EXPECT_EQ(traced->trace_speed, 2.5);
  EXPECT_EQ(traced->trace_lengths, "clip");
  EXPECT_EQ(traced->record_trace_file, "r");
}

TEST(Options, WithoutAnyRequestsAreStreamsOfRandomWords) {
  const auto workload = ParseWorkloadOf({});
  ASSERT_TRUE(workload.ok()) << workload.status();
  ASSERT_EQ(workload->classes.size(), 1U);
  EXPECT_EQ(workload->classes[0].kind, Kind::kGenerateStream);
  EXPECT_EQ(workload->classes[0].model, "");
  EXPECT_TRUE(workload->classes[0].prompt.words.has_value());
  EXPECT_EQ(workload->num_distinct, 0U);
  // Enough of them twice to compare.
  EXPECT_EQ(ParseWorkloadOf({"--verify"})->num_distinct, 32U);
  EXPECT_EQ(ParseWorkloadOf({"--verify", "--distinct", "5"})->num_distinct, 5U);
}

TEST(Options, EveryFlagOfTheRequestsIsInTheWorkload) {
  const auto workload = ParseWorkloadOf({"--kind",
                                         "generate=3",
                                         "--kind",
                                         "encode",
                                         "--model",
                                         "m",
                                         "--prompt",
                                         "the text",
                                         "--shared",
                                         "2",
                                         "--batch",
                                         "1",
                                         "--max-new-tokens",
                                         "uniform:1:4",
                                         "--beam-width",
                                         "2",
                                         "--ignore-eos",
                                         "--cancel-share",
                                         "0.25",
                                         "--cancel-after-ms",
                                         "5",
                                         "--deadline-share",
                                         "0.5",
                                         "--deadline-ms",
                                         "6"});
  ASSERT_TRUE(workload.ok()) << workload.status();
  ASSERT_EQ(workload->classes.size(), 2U);
  const RequestClass& generate = workload->classes[0];
  EXPECT_EQ(generate.kind, Kind::kGenerate);
  EXPECT_EQ(generate.weight, 3);
  EXPECT_EQ(generate.model, "m");
  EXPECT_THAT(generate.prompt.texts, ElementsAre("the text"));
  EXPECT_EQ(generate.prompt.num_shared, 2);
  EXPECT_TRUE(generate.max_new_tokens.has_value());
  EXPECT_TRUE(generate.beam_width.has_value());
  EXPECT_TRUE(generate.generate.limits().ignore_eos());
  EXPECT_EQ(generate.cancel_share, 0.25);
  EXPECT_EQ(generate.deadline_share, 0.5);
  Random random(1);
  EXPECT_EQ(generate.cancel_after_ms.Draw(random), 5);
  EXPECT_EQ(generate.deadline_ms.Draw(random), 6);
  // Of which only generation knows.
  EXPECT_EQ(workload->classes[1].kind, Kind::kEncode);
  EXPECT_FALSE(workload->classes[1].max_new_tokens.has_value());
  const auto sampled = ParseWorkloadOf(
      {"--temperature", "0.5", "--top-k", "7", "--top-p", "0.25", "--prompt-tokens", "9"});
  ASSERT_TRUE(sampled.ok()) << sampled.status();
  const v1::Sampling& sampling = sampled->classes[0].generate.sampling();
  EXPECT_FLOAT_EQ(sampling.temperature(), 0.5F);
  EXPECT_EQ(sampling.top_k(), 7);
  EXPECT_FLOAT_EQ(sampling.top_p(), 0.25F);
  EXPECT_TRUE(sampled->classes[0].prompt.tokens.has_value());
  EXPECT_EQ(ParseWorkloadOf({"--kind", "encode_many", "--batch", "4"})->classes[0].batch, 4);
}

TEST(Options, EveryKindHasItsName) {
  for (const Kind kind : {Kind::kGenerate, Kind::kGenerateStream, Kind::kGenerateMany,
                          Kind::kEncode, Kind::kEncodeMany, Kind::kScore, Kind::kClassify,
                          Kind::kClassifyTokens, Kind::kFillMask, Kind::kRerank, Kind::kTokenize}) {
    const auto workload = ParseWorkloadOf({"--kind", KindName(kind)});
    ASSERT_TRUE(workload.ok()) << KindName(kind) << workload.status();
    EXPECT_EQ(workload->classes[0].kind, kind);
    EXPECT_EQ(workload->classes[0].name, KindName(kind));
  }
}

TEST(Options, WhatIsWrongIsNamed) {
  const std::vector<std::pair<Arguments, const char*>> cases = {
      {{"--rate", "nan"}, "--rate is 'nan'; accepted: 0.001 to 1000000"},
      {{"--connections", "0"}, "--connections is '0'; accepted: 1 to 1024"},
      {{"--cancel-share", "1.5"}, "--cancel-share is '1.5'; accepted: 0 to 1"},
      {{"--temperature", "inf"}, "--temperature is 'inf'; accepted: a finite number"},
      {{"--model", ""}, "is empty"},
      {{"--json", ""}, "--json is ''; accepted: the path of a file"},
      {{"--workload", "w", "--model", "m"}, "excludes"},
      {{"--phase", "1:1", "--rate", "3"}, "excludes"},
      {{"--phase", "1:1", "--duration", "3"}, "excludes"},
      {{"--phase", "1:1", "--concurrency", "3"}, "excludes"},
      {{"--metrics", ""}, "is empty"},
      {{"--trace", "t", "--rate", "3"}, "excludes"},
      {{"--trace", "t", "--phase", "1:1"}, "excludes"},
      {{"--trace", "t", "--concurrency", "3"}, "excludes"},
      {{"--trace", "t", "--verify"}, "excludes"},
      {{"--trace", "t", "--prompt-words", "3"}, "excludes"},
      {{"--trace", "t", "--max-new-tokens", "3"}, "excludes"},
      {{"--trace-speed", "2"}, "requires --trace"},
      {{"--trace-speed", "0", "--trace", "t"}, "--trace-speed is '0'; accepted: 0.001 to 1000"},
      {{"--kind", "fly"}, "kind \"fly\""},
      {{"--prompt", "a", "--prompt-words", "3"}, "expected exactly one"},
      {{"--max-new-tokens", "many"}, "\"many\" is no distribution"},
      {{"--workload", "/nowhere"}, "--workload"}};
  for (const auto& [arguments, expected] : cases) {
    const auto workload = ParseWorkloadOf(arguments);
    ASSERT_FALSE(workload.ok()) << expected;
    EXPECT_THAT(std::string(workload.status().message()), HasSubstr(expected));
  }
}

}  // namespace
}  // namespace beamline::loadtest::options_test
