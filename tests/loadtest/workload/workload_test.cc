// Distributions, workload files and the requests made from them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>
#include <variant>
#include <vector>

#include "fmt/format.h"
#include "loadtest/workload/distribution.h"
#include "loadtest/workload/request_factory.h"
#include "loadtest/workload/workload_file.h"

namespace beamline::loadtest::workload_test {
namespace {

using ::testing::HasSubstr;

constexpr char kMix[] = R"(
distinct: 0
requests:
  - name: chat
    kind: generate_stream
    weight: 3
    model: write
    prompt: {words: "uniform:3:9", shared: 2}
    max_new_tokens: "uniform:4:16"
    options:
      sampling: {temperature: 0.8, top_k: 5}
      limits: {ignore_eos: true, stop: ["\n"]}
    cancel_share: 0.2
    cancel_after_ms: 5
    deadline_share: 0.1
    deadline_ms: uniform:1:20
  - kind: generate
    prompt: {tokens: 12}
    beam_width: uniform:1:16
    max_new_tokens: 6
    options: {beam: {length_penalty: 0.5, early_stopping: EARLY_STOPPING_EAGER}}
  - kind: encode_many
    prompt: {jsonl: tests/golden/embed.jsonl}
    batch: 4
    options: {pooling: POOLING_MEAN, normalize: true}
)";

Workload Parse(const std::string& yaml) {
  auto workload = ParseWorkload(yaml, BEAMLINE_SOURCE_DIR);
  EXPECT_TRUE(workload.ok()) << workload.status();
  for (RequestClass& of : workload->classes) of.vocab_size = 1000;
  return *std::move(workload);
}

TEST(DistributionTest, DrawsWhatItSays) {
  Random random(1);
  EXPECT_EQ(Distribution::Parse("64")->Draw(random), 64);
  const auto uniform = Distribution::Parse("uniform:3:5");
  std::set<int64_t> seen;
  for (int i = 0; i < 1000; ++i) seen.insert(uniform->Draw(random));
  EXPECT_EQ(seen, (std::set<int64_t>{3, 4, 5}));
}

TEST(DistributionTest, LognormalHasItsMedianAndSpread) {
  Random random(2);
  const auto lognormal = Distribution::Parse("lognormal:100:0.5:1000");
  std::vector<int64_t> values;
  for (int i = 0; i < 20'000; ++i) values.push_back(lognormal->Draw(random));
  std::sort(values.begin(), values.end());
  EXPECT_NEAR(static_cast<double>(values[10'000]), 100, 3);
  // One standard deviation up: 100 * e^0.5 at 84.13%.
  EXPECT_NEAR(static_cast<double>(values[16'827]), 164.9, 6);
  EXPECT_GE(values.front(), 1);
  EXPECT_LE(values.back(), 1000);
}

TEST(DistributionTest, RejectsEverythingElse) {
  for (const char* text : {"", "-1", "x", "1.5", "uniform:5", "uniform:5:3", "uniform:1:2:3", "1:2",
                           "lognormal:0:1:10", "lognormal:10:1", "normal:1:2", "nan", "1e9"}) {
    EXPECT_EQ(Distribution::Parse(text).status().code(), absl::StatusCode::kInvalidArgument)
        << text;
  }
}

TEST(WorkloadFileTest, ReadsEveryKey) {
  const Workload workload = Parse(kMix);
  ASSERT_EQ(workload.classes.size(), 3U);
  const RequestClass& chat = workload.classes[0];
  EXPECT_EQ(chat.name, "chat");
  EXPECT_EQ(chat.kind, Kind::kGenerateStream);
  EXPECT_EQ(chat.weight, 3);
  EXPECT_FLOAT_EQ(chat.generate.sampling().temperature(), 0.8F);
  EXPECT_EQ(chat.generate.limits().stop(0), "\n");
  EXPECT_EQ(chat.prompt.num_shared, 2);
  EXPECT_EQ(workload.classes[1].name, "generate");
  EXPECT_EQ(workload.classes[1].generate.beam().early_stopping(), v1::EARLY_STOPPING_EAGER);
  EXPECT_GT(workload.classes[2].prompt.texts.size(), 10U);
}

TEST(WorkloadFileTest, NamesWhatIsWrong) {
  const std::vector<std::pair<const char*, const char*>> cases = {
      {"requests: 3", "workload.requests"},
      {"requests: []", "at least one"},
      {"bogus: 1\nrequests: []", "workload.bogus: unknown key"},
      {"requests: [{kind: fly, prompt: {text: a}}]", "requests[0].kind: kind \"fly\""},
      {"requests: [{kind: encode}]", "requests[0].prompt: required"},
      {"requests: [{kind: encode, prompt: {}}]", "requests[0].prompt: expected exactly one"},
      {"requests: [{kind: encode, prompt: {words: 0}}]", "cannot be empty"},
      {"requests: [{kind: encode, prompt: {text: a}, weight: -1}]", "requests[0].weight"},
      {"requests: [{kind: encode, prompt: {text: a}, max_new_tokens: 4}]", "for generation"},
      {"requests: [{kind: generate, prompt: {text: a}, beam_width: 65}]", "1 .. 64"},
      {"requests: [{kind: generate, prompt: {text: a}, options: {speed: 9}}]", "speed"},
      {"requests: [{kind: generate, prompt: {text: a}, cancel_share: 0.5}]", "cancel_after_ms"},
      {"requests: [{kind: tokenize, prompt: {tokens: 5}}]", "tokenize takes a text"},
      {"requests: [{kind: rerank, prompt: {tokens: 5}}]", "rerank takes a text"},
      {"requests: [{kind: classify_tokens, prompt: {tokens: 5}}]", "classify_tokens takes a text"},
      {"requests: [{kind: fill_mask, prompt: {tokens: 5}}]", "fill_mask takes a text"},
      {"requests: [{kind: classify, prompt: {text: a}, options: {normalize: true}}]", "normalize"},
      {"requests: [{kind: encode, prompt: {jsonl: nowhere.jsonl}}]", "cannot be read"},
      {"requests: [", "workload:1: "},
      {"requests: [{kind: encode, prompt: {text: a}}]\n---\nseed: 1\n", "a second document"},
      {"request: []", "workload.request: unknown key; did you mean 'requests'?"},
      {"requests: []\nrequests: []", "workload.requests: given twice"},
      {"requests: [{kind: generat, prompt: {text: a}}]", "did you mean 'generate'?"},
      {"requests: [{kind: encode, prompt: {text: a}, options: {truncate: 1, truncate: 2}}]",
       "truncate is given twice"},
      {"requests: [{kind: encode, prompt: {text: a}, options: &o {inputs: *o}}]",
       "nested deeper than"},
      {"requests: [{kind: encode, prompt: {jsonl: /}}]", "a folder; accepted: a regular file"},
  };
  for (const auto& [yaml, expected] : cases) {
    const auto workload = ParseWorkload(yaml, BEAMLINE_SOURCE_DIR);
    ASSERT_FALSE(workload.ok()) << yaml;
    EXPECT_THAT(std::string(workload.status().message()), HasSubstr(expected)) << yaml;
  }
}

// A kilobyte of aliases that would become 10^8 values.
TEST(WorkloadFileTest, AliasesDoNotMultiply) {
  std::string options = "{a0: &a0 [x,x,x,x,x,x,x,x,x,x]";
  for (int i = 1; i < 8; ++i) {
    options +=
        fmt::format(", a{0}: &a{0} [*a{1},*a{1},*a{1},*a{1},*a{1},*a{1},*a{1},*a{1}]", i, i - 1);
  }
  const auto workload = ParseWorkload(
      fmt::format("requests: [{{kind: encode, prompt: {{text: a}}, options: {}}}}}]", options),
      ".");
  EXPECT_THAT(std::string(workload.status().message()), HasSubstr("more than 100000 values"));
}

TEST(WorkloadFileTest, TheRepositorysFilesAreRead) {
  int num_files = 0;
  const std::filesystem::path folder = std::filesystem::path(BEAMLINE_SOURCE_DIR) / "bench";
  for (const auto& file : std::filesystem::directory_iterator(folder / "workloads")) {
    EXPECT_TRUE(ReadWorkload(file.path()).ok()) << ReadWorkload(file.path()).status();
    ++num_files;
  }
  EXPECT_GE(num_files, 3);
}

TEST(RequestFactoryTest, RequestsDependOnSeedAndIndexAlone) {
  const Workload workload = Parse(kMix);
  const RequestFactory one(workload, 5);
  const RequestFactory same(workload, 5);
  const RequestFactory other(workload, 6);
  int num_equal = 0;
  for (int index = 199; index >= 0; --index) {
    const auto i = static_cast<uint64_t>(index);
    const Request request = one.Make(i);
    const Request again = same.Make(i);
    ASSERT_EQ(request.class_index, again.class_index);
    ASSERT_EQ(request.cancel_after, again.cancel_after);
    ASSERT_EQ(request.deadline, again.deadline);
    if (const auto* generate = std::get_if<v1::GenerateRequest>(&request.body)) {
      ASSERT_EQ(generate->SerializeAsString(),
                std::get<v1::GenerateRequest>(again.body).SerializeAsString());
      const Request different = other.Make(i);
      const auto* body = std::get_if<v1::GenerateRequest>(&different.body);
      num_equal += body != nullptr && body->SerializeAsString() == generate->SerializeAsString();
    }
  }
  EXPECT_EQ(num_equal, 0);
}

TEST(RequestFactoryTest, KeepsSharesAndRanges) {
  const Workload workload = Parse(kMix);
  const RequestFactory factory(workload, 9);
  constexpr int kNumRequests = 20'000;
  std::vector<int> per_class(3);
  int num_cancelled = 0;
  int num_short = 0;
  std::set<int> widths;
  for (uint64_t i = 0; i < kNumRequests; ++i) {
    const Request request = factory.Make(i);
    ++per_class[request.class_index];
    num_cancelled += request.cancel_after.has_value();
    num_short += request.deadline.has_value();
    if (request.class_index == 0) {
      const auto& body = std::get<v1::GenerateRequest>(request.body);
      ASSERT_GE(body.limits().max_new_tokens(), 4);
      ASSERT_LE(body.limits().max_new_tokens(), 16);
      ASSERT_TRUE(body.sampling().has_seed());
      const std::string& text = body.prompt().text();
      const auto num_spaces = std::count(text.begin(), text.end(), ' ');
      ASSERT_GE(num_spaces + 1, 2 + 3);
      ASSERT_LE(num_spaces + 1, 2 + 9);
    } else if (request.class_index == 1) {
      const auto& body = std::get<v1::GenerateRequest>(request.body);
      ASSERT_EQ(body.prompt().ids().ids_size(), 12);
      for (const int32_t id : body.prompt().ids().ids()) ASSERT_LT(id, 1000);
      ASSERT_FLOAT_EQ(body.beam().length_penalty(), 0.5F);
      widths.insert(body.beam().width());
    } else {
      const auto& body = std::get<std::vector<v1::EncodeRequest>>(request.body);
      ASSERT_EQ(body.size(), 4U);
      ASSERT_EQ(body[3].request_id(), "3");
      ASSERT_EQ(body[3].inputs_size(), 1);
    }
  }
  // Five standard deviations of a binomial count are at most 5 * sqrt(20000) / 2 = 354.
  EXPECT_NEAR(per_class[0], kNumRequests * 0.6, 354);
  EXPECT_NEAR(per_class[1], kNumRequests * 0.2, 354);
  EXPECT_NEAR(num_cancelled, per_class[0] * 0.2, 280);
  EXPECT_NEAR(num_short, per_class[0] * 0.1, 210);
  EXPECT_EQ(widths.size(), 16U);
}

TEST(RequestFactoryTest, DistinctBoundsTheBodiesAndSharedPrefixesAreShared) {
  Workload workload = Parse("requests: [{kind: generate, prompt: {tokens: 4, shared: 6}}]");
  workload.num_distinct = 5;
  const RequestFactory factory(workload, 3);
  std::set<std::string> bodies;
  std::set<std::vector<int32_t>> prefixes;
  for (uint64_t i = 0; i < 500; ++i) {
    const Request request = factory.Make(i);
    const auto& body = std::get<v1::GenerateRequest>(request.body);
    bodies.insert(body.SerializeAsString());
    const auto& ids = body.prompt().ids().ids();
    ASSERT_EQ(ids.size(), 10);
    prefixes.insert({ids.begin(), ids.begin() + 6});
  }
  EXPECT_EQ(bodies.size(), 5U);
  EXPECT_EQ(prefixes.size(), 1U);
}

}  // namespace
}  // namespace beamline::loadtest::workload_test
