#include "loadtest/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>

#include "google/protobuf/util/json_util.h"
#include "loadtest/run.h"
#include "tests/loadtest/scripted_server.h"
#include "tests/scratch_path.h"

namespace beamline::loadtest::plan_test {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

constexpr char kMixedWorkload[] = R"(
requests:
  - kind: generate
    prompt: {words: uniform:1:9}
    options: {sampling: {temperature: 0.9, top_p: 0.95, num_sequences: 2}, shaping: {logit_bias: {7: -1.5}}}
  - {kind: generate_stream, prompt: {tokens: uniform:1:9}, max_new_tokens: uniform:2:5, beam_width: 2}
  - {kind: generate_stream, name: cut, prompt: {text: "grün \"\u0001\u2028 ✓"}, options: {greedy: {}},
     cancel_share: 0.5, cancel_after_ms: uniform:1:9, deadline_share: 0.5, deadline_ms: 5000}
  - {kind: generate_many, prompt: {words: uniform:1:9}, batch: 3}
  - {kind: encode, prompt: {tokens: uniform:1:9}, batch: 3, options: {truncate: TRUNCATION_RIGHT}}
  - {kind: encode_many, prompt: {words: uniform:1:9}, batch: 3}
  - {kind: score, prompt: {words: 3}, batch: 2}
  - {kind: classify, prompt: {tokens: uniform:1:9}, batch: 2}
  - {kind: classify_tokens, prompt: {words: 3}, batch: 2}
  - {kind: fill_mask, prompt: {words: 3}, batch: 2, options: {top_k: 3}}
  - {kind: rerank, prompt: {words: 3}, batch: 2, options: {top: 1}}
  - {kind: tokenize, model: write, prompt: {words: 3}}
)";

RunFlags MixedFlags(const ScriptedServer& server) {
  RunFlags flags;
  flags.target = server.target();
  flags.rate = 200;
  flags.duration_s = 1;
  flags.warmup_s = 0.2;
  flags.seed = 7;
  flags.workload_file = ScratchPath("planned.yaml");
  std::ofstream(flags.workload_file) << kMixedWorkload;
  return flags;
}

std::vector<json> ReadLines(const std::string& path) {
  std::vector<json> lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) lines.push_back(json::parse(line));
  return lines;
}

std::vector<json> MakePlan(RunFlags flags, const std::string& name) {
  flags.plan_file = ScratchPath(name);
  const absl::Status status = PlanLoadTest(flags);
  EXPECT_TRUE(status.ok()) << status;
  return ReadLines(flags.plan_file);
}

template <typename Message>
std::string Serialized(const json& object) {
  Message message;
  const auto status = google::protobuf::util::JsonStringToMessage(object.dump(), &message);
  EXPECT_TRUE(status.ok()) << status << object;
  return message.SerializeAsString();
}

std::string SerializedAs(const std::string& kind, const json& object) {
  if (kind.starts_with("generate")) return Serialized<v1::GenerateRequest>(object);
  if (kind.starts_with("encode")) return Serialized<v1::EncodeRequest>(object);
  if (kind == "score") return Serialized<v1::ScoreRequest>(object);
  if (kind == "classify") return Serialized<v1::ClassifyRequest>(object);
  if (kind == "classify_tokens") return Serialized<v1::ClassifyTokensRequest>(object);
  if (kind == "fill_mask") return Serialized<v1::FillMaskRequest>(object);
  if (kind == "rerank") return Serialized<v1::RerankRequest>(object);
  return Serialized<v1::TokenizeRequest>(object);
}

TEST(Plan, HasTheRequestsOfTheRunBitForBit) {
  ScriptedServer server({});
  RunFlags flags = MixedFlags(server);
  const auto plan = MakePlan(flags, "of_run.jsonl");
  EXPECT_EQ(server.num_requests(), 0);
  flags.log_file = ScratchPath("of_run.log");
  // Cancelled calls might not reach the server.
  ASSERT_TRUE(RunLoadTest(flags, "test").ok());
  std::map<int, json> sent;
  for (const json& record : ReadLines(flags.log_file)) sent[record["index"].get<int>()] = record;
  ASSERT_GT(sent.size(), 150U);
  ASSERT_EQ(plan.size(), sent.size() + 1);
  std::vector<std::string> planned, uncut;
  for (size_t i = 1; i < plan.size(); ++i) {
    const json& line = plan[i];
    ASSERT_EQ(line["index"], i - 1);
    EXPECT_EQ(line["time_s"], sent[i - 1]["intended_s"]);
    EXPECT_EQ(line["class"], sent[i - 1]["class"]);
    for (const json& request : line["requests"]) {
      planned.push_back(SerializedAs(line["kind"], request));
      if (!line.contains("cancel_after_ms")) uncut.push_back(planned.back());
    }
  }
  auto received = server.received();
  for (auto* const messages : {&planned, &uncut, &received}) std::ranges::sort(*messages);
  ASSERT_GT(uncut.size(), 200U);
  EXPECT_TRUE(std::ranges::includes(received, uncut));
  EXPECT_TRUE(std::ranges::includes(planned, received));
}

TEST(Plan, IsTheSameTwice) {
  ScriptedServer server({});
  const RunFlags flags = MixedFlags(server);
  const auto text = [&](const char* name) {
    MakePlan(flags, name);
    std::ifstream file(ScratchPath(name));
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  EXPECT_EQ(text("once.jsonl"), text("twice.jsonl"));
}

TEST(Plan, HasTheTimesAndLengthsOfATrace) {
  ScriptedServer server({});
  RunFlags flags;
  flags.target = server.target();
  flags.trace_file = ScratchPath("planned.csv");
  std::ofstream(flags.trace_file) << "arrival_s,prompt_tokens,output_tokens\n0.5,3,7\n1.25,5,2\n";
  const auto plan = MakePlan(flags, "of_trace.jsonl");
  ASSERT_EQ(plan.size(), 3U);
  EXPECT_EQ(plan[0]["load"]["arrivals"], "trace");
  EXPECT_EQ(plan[1]["time_s"], 0.5);
  EXPECT_EQ(plan[2]["time_s"], 1.25);
  const json& request = plan[2]["requests"][0];
  EXPECT_EQ(request["prompt"]["ids"]["ids"].size(), 5U);
  EXPECT_EQ(request["limits"]["max_new_tokens"], 2);
}

TEST(Plan, BeginsWithTheLoad) {
  ScriptedServer server({});
  RunFlags flags = MixedFlags(server);
  flags.num_requests = 3;
  const auto plan = MakePlan(flags, "head.jsonl");
  ASSERT_EQ(plan.size(), 4U);
  const json& head = plan[0];
  EXPECT_EQ(head["schema"], "beamline.plan/1");
  EXPECT_EQ(head["load"]["arrivals"], "poisson");
  EXPECT_EQ(head["load"]["rate_per_s"], 200.0);
  EXPECT_EQ(head["load"]["duration_s"], 1.0);
  EXPECT_EQ(head["load"]["warmup_s"], 0.2);
  EXPECT_EQ(head["load"]["seed"], 7);
  ASSERT_EQ(head["asked_per_s"].size(), 2U);
  EXPECT_NEAR(head["asked_per_s"][1].get<double>(), 200, 1e-9);
  EXPECT_EQ(head["timeout_s"], 60.0);
  EXPECT_EQ(head["drain_s"], 30.0);
  ASSERT_EQ(head["classes"].size(), 12U);
  EXPECT_EQ(head["classes"][2], json({{"name", "cut"}, {"kind", "generate_stream"}}));
  EXPECT_EQ(head["models"].size(), 4U);
}

TEST(Plan, RefusesWhatHasNoTimesOrNoText) {
  ScriptedServer server({});
  const auto fault = [&](const auto& change) {
    RunFlags flags = MixedFlags(server);
    change(flags);
    return std::string(PlanLoadTest(flags).message());
  };
  EXPECT_THAT(fault([](RunFlags& flags) { flags.concurrency = 2; }), HasSubstr("--concurrency"));
  EXPECT_THAT(fault([](RunFlags& flags) { flags.batching = "serial"; }), HasSubstr("--batching"));
  EXPECT_THAT(fault([](RunFlags& flags) { flags.plan_file = "/no/plan"; }),
              HasSubstr("--out is '/no/plan'"));
  EXPECT_THAT(fault([](RunFlags& flags) {
                flags.workload_file.clear();
                flags.requests.text = "\xff";
              }),
              HasSubstr("UTF-8"));
}

}  // namespace
}  // namespace beamline::loadtest::plan_test
