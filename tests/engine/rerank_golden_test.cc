// Models that write as rerankers, against the logits of transformers for the two tokens that may
// come next (tools/make_reranker_golden.py; fields and tolerances: tests/golden/README.md).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/engine/demo_engine.h"
#include "tests/golden/golden_rows.h"

namespace beamline::rerank_golden_test {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

// Sums in another order err as much as float32 itself did in the reference.
constexpr float kErrorFactor = 10.0f;
constexpr float kLeastTolerance = 2e-5f;
constexpr int32_t kPositions = 128;  // of the longest input of these models

ModelOptions Golden(const std::string& folder, const json& expected) {
  ModelOptions model = Demo("golden");
  model.folder = std::string(BEAMLINE_SOURCE_DIR) + "/tests/golden/rerankers/" + folder;
  model.tensor_parallel = model.pipeline_parallel = 1;
  model.device = TestDevice();
  // A decoder's prompt leaves a position for a token behind it.
  const bool translates = folder.starts_with("t5") || folder.starts_with("bart");
  model.max_model_len = kPositions + (translates ? 0 : 1);
  model.rerank_template = expected["template"];
  model.rerank_tokens =
      expected["tokens"][0].get<std::string>() + ", " + expected["tokens"][1].get<std::string>();
  return model;
}

absl::StatusOr<std::unique_ptr<Engine>> Serve(ModelOptions model) {
  EngineOptions options = TestEngineOptions();
  options.models = {std::move(model)};
  return Engine::Create(options);
}

EncodeTruncation TruncationOf(const json& row) {
  if (!row["is_cut"]) return EncodeTruncation::kNone;
  return row["truncate"] == "left" ? EncodeTruncation::kLeft : EncodeTruncation::kRight;
}

ClassifyRequest RequestOf(const json& row) {
  ClassifyRequest request;
  request.model = "golden";
  request.query = row["query"].get<std::string>();
  request.inputs.emplace_back(row["document"].get<std::string>());
  request.truncate = TruncationOf(row);
  return request;
}

double Difference(const json& row) {
  return row["logits"][0].get<double>() - row["logits"][1].get<double>();
}

class RerankGoldenTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    expected_ = GoldenFile(std::string("rerankers/") + GetParam() + "/expected.json");
    ASSERT_GT(expected_["rows"].size(), 20u);
    auto engine = Serve(Golden(GetParam(), expected_));
    ASSERT_TRUE(engine.ok()) << engine.status();
    engine_ = *std::move(engine);
  }

  void ExpectAnswer(const absl::StatusOr<EncodeResult>& result, size_t document, const json& row,
                    double expected) const {
    ASSERT_TRUE(result.ok()) << result.status();
    const Embedding& found = result->embeddings[document];
    EXPECT_EQ(found.num_tokens, static_cast<int32_t>(row["ids"].size()));
    ASSERT_EQ(found.values.size(), 1u);
    const float tolerance =
        std::max(kLeastTolerance, kErrorFactor * row["float32_error"].get<float>());
    EXPECT_NEAR(found.values[0], expected, tolerance) << row.dump();
  }

  std::unique_ptr<Engine> engine_;
  json expected_;
};

TEST_P(RerankGoldenTest, ScoresAreTheReferences) {
  EXPECT_TRUE(engine_->Models().front().reranks);
  for (const json& row : expected_["rows"]) {
    ClassifyRequest request = RequestOf(row);
    const double difference = Difference(row);
    request.function = ScoreFunction::kNone;
    ExpectAnswer(engine_->ClassifyAndWait(request), 0, row, difference);
    for (const auto function :
         {std::optional<ScoreFunction>(), std::optional(ScoreFunction::kSigmoid),
          std::optional(ScoreFunction::kSoftmax)}) {
      request.function = function;
      ExpectAnswer(engine_->ClassifyAndWait(request), 0, row, 1.0 / (1.0 + std::exp(-difference)));
    }
  }
}

// In one batch, beside each other and with their common beginnings in the cache.
TEST_P(RerankGoldenTest, DocumentsOfOneRequestAreAnsweredAsAlone) {
  for (const char* const side : {"right", "left"}) {
    for (int round = 0; round < 2; ++round) {
      ClassifyRequest request;
      request.model = "golden";
      request.truncate =
          std::string(side) == "left" ? EncodeTruncation::kLeft : EncodeTruncation::kRight;
      request.function = ScoreFunction::kNone;
      std::vector<json> rows;
      for (const json& row : expected_["rows"]) {
        if (row["truncate"] != side || row["query"] != expected_["rows"][0]["query"]) continue;
        request.query = row["query"].get<std::string>();
        request.inputs.emplace_back(row["document"].get<std::string>());
        rows.push_back(row);
      }
      const auto result = engine_->ClassifyAndWait(request);
      ASSERT_TRUE(result.ok()) << result.status();
      ASSERT_EQ(result->embeddings.size(), rows.size());
      int32_t tokens = 0;
      for (size_t i = 0; i < rows.size(); ++i) {
        ExpectAnswer(result, i, rows[i], Difference(rows[i]));
        tokens += static_cast<int32_t>(rows[i]["ids"].size());
      }
      EXPECT_EQ(result->usage.prompt_tokens, tokens);
      EXPECT_EQ(result->usage.generated_tokens, 0);
    }
  }
}

TEST_P(RerankGoldenTest, RefusesADocumentThatIsTooLong) {
  for (const json& row : expected_["rows"]) {
    if (!row["is_cut"]) continue;
    ClassifyRequest request = RequestOf(row);
    request.inputs.insert(request.inputs.begin(), std::string("fox"));
    request.truncate = EncodeTruncation::kNone;
    const auto refused = engine_->ClassifyAndWait(request);
    EXPECT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(refused.status().message()), HasSubstr("documents[1]"));
    EXPECT_THAT(std::string(refused.status().message()), HasSubstr("set truncate to cut it"));
  }
}

INSTANTIATE_TEST_SUITE_P(Models, RerankGoldenTest,
                         ::testing::Values("qwen3-4of2x6", "gemma-4of2x6", "llama-4of2x6", "t5-3x8",
                                           "bart-3x8"));

// --- Requests ---------------------------------------------------------------------------------

class RerankTest : public ::testing::Test {
 protected:
  void SetUp() override { expected_ = GoldenFile("rerankers/qwen3-4of2x6/expected.json"); }
  ModelOptions Options() const { return Golden("qwen3-4of2x6", expected_); }

  // Of a load with these settings.
  std::string Fault(const std::string& text, const std::string& tokens) const {
    ModelOptions options = Options();
    options.rerank_template = text;
    options.rerank_tokens = tokens;
    return std::string(Serve(options).status().message());
  }

  json expected_;
};

std::string Refusal(Engine& engine, const ClassifyRequest& request) {
  return std::string(engine.ClassifyAndWait(request).status().message());
}

TEST_F(RerankTest, SettingsAreChecked) {
  const std::string good = "{query} {document}";
  EXPECT_THAT(Fault(good, ""), HasSubstr("rerank_tokens is not given; accepted: both"));
  EXPECT_THAT(Fault("", "yes,no"), HasSubstr("rerank_template is not given; accepted: both"));
  for (const char* text : {"{query}", "{document}", "x", "{query} {document} {query}",
                           "{document}{document} {query}", "{ query } {document}", "{query"}) {
    EXPECT_THAT(Fault(text, "yes,no"), HasSubstr("accepted: a text with {query} and {document}, "
                                                 "each once"))
        << text;
  }
  for (const char* tokens : {"yes", "yes,no,no", "yes,yes", "yes, yes"}) {
    EXPECT_THAT(Fault(good, tokens), HasSubstr("accepted: two different tokens")) << tokens;
  }
  EXPECT_THAT(Fault(good, "yes,the fox"),
              ::testing::MatchesRegex(".*rerank_tokens: 'the fox' is [0-9]+ tokens; accepted: a "
                                      "token's spelling in the vocabulary, or a text that is one "
                                      "token"));
  EXPECT_THAT(Fault(good, "yes,"), HasSubstr("rerank_tokens: '' is"));
  EXPECT_EQ(Fault(good, " yes , no "), "");
  EXPECT_EQ(Fault("{\"d\": \"{document}\", {query}}}", "yes,no"), "");
}

TEST_F(RerankTest, ModelsThatDoNotWriteTakeNoTemplate) {
  ModelOptions embedder = Demo("embed-en");
  embedder.rerank_template = "{query} {document}";
  embedder.rerank_tokens = "a,b";
  EXPECT_THAT(std::string(Serve(embedder).status().message()),
              HasSubstr("rerank_template is given; accepted: models that write, which"));
}

TEST_F(RerankTest, RequestsAreChecked) {
  auto engine = Serve(Options());
  ASSERT_TRUE(engine.ok()) << engine.status();
  ClassifyRequest request;
  request.model = "golden";
  request.query = "who";
  EXPECT_EQ(Refusal(**engine, request), "documents has 0 entries; accepted: 1 to 4096");
  request.inputs.assign(4097, std::string("x"));
  EXPECT_EQ(Refusal(**engine, request), "documents has 4097 entries; accepted: 1 to 4096");
  request.inputs = {TokenIds{1, 2}};
  EXPECT_THAT(Refusal(**engine, request), HasSubstr("documents[0] is not a text"));
  request.inputs = {std::string("fox"), std::string("\xff")};
  EXPECT_THAT(Refusal(**engine, request), HasSubstr("documents[1] is not UTF-8 at byte 0"));
  request.inputs = {std::string("fox")};
  request.query = "\xff";
  EXPECT_THAT(Refusal(**engine, request), HasSubstr("query is not UTF-8 at byte 0"));
  request.query = "";
  EXPECT_THAT(Refusal(**engine, request), HasSubstr("query is empty"));
  request.query = "who";
  request.top = 0;
  EXPECT_THAT(Refusal(**engine, request), HasSubstr("top is 0"));
  request.top.reset();
  request.query = std::string(4 << 20, 'q');
  request.inputs.assign(4096, std::string("x"));
  for (const auto side : {EncodeTruncation::kNone, EncodeTruncation::kRight}) {
    request.truncate = side;
    EXPECT_THAT(Refusal(**engine, request), HasSubstr("query has more than 16384 tokens"));
  }
  request.inputs.assign(1, std::string("fox"));
  request.query = std::string(4000, 'q');
  request.truncate = EncodeTruncation::kRight;
  EXPECT_THAT(Refusal(**engine, request),
              HasSubstr("documents[0] has "));  // no cut of the document makes it fit
  request.query.reset();
  EXPECT_THAT(Refusal(**engine, request), HasSubstr("has no classes"));
  ModelOptions plain = Options();
  plain.rerank_template = plain.rerank_tokens = "";
  auto writer = Serve(plain);
  ASSERT_TRUE(writer.ok()) << writer.status();
  EXPECT_FALSE((*writer)->Models().front().reranks);
  request.query = "who";
  EXPECT_THAT(Refusal(**writer, request),
              HasSubstr("without the settings rerank_template and rerank_tokens"));
}

TEST_F(RerankTest, ADeadlineAndACancellationEndAllDocuments) {
  auto engine = Serve(Options());
  ASSERT_TRUE(engine.ok()) << engine.status();
  ClassifyRequest request;
  request.model = "golden";
  request.query = "who";
  request.inputs.assign(500, std::string("the fox jumps over a lazy dog"));
  auto sink = std::make_shared<RecordingEncodeSink>();
  const auto handle = (*engine)->Classify(request, sink);
  ASSERT_TRUE(handle.ok()) << handle.status();
  (*handle)->Cancel();
  const auto cancelled = sink->Wait();  // a result that was ready first is one, too
  if (!cancelled.ok()) {
    EXPECT_EQ(cancelled.status().code(), absl::StatusCode::kCancelled);
  }
  request.deadline = Clock::now() - std::chrono::milliseconds(1);
  EXPECT_EQ((*engine)->ClassifyAndWait(request).status().code(),
            absl::StatusCode::kDeadlineExceeded);
  request.deadline.reset();
  EXPECT_TRUE((*engine)->ClassifyAndWait(request).ok()) << "nothing is left behind";
}

TEST_F(RerankTest, AFullQueueRefusesTheRequestAsAWhole) {
  ModelOptions options = Options();
  options.max_queued_requests = 16;
  auto engine = Serve(options);
  ASSERT_TRUE(engine.ok()) << engine.status();
  ClassifyRequest request;
  request.model = "golden";
  request.query = "who";
  request.inputs.assign(4096, std::string("the fox jumps over a lazy dog"));
  const auto refused = (*engine)->ClassifyAndWait(request);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted) << refused.status();
  request.inputs.resize(2);
  absl::StatusOr<EncodeResult> served = absl::UnknownError("");
  for (int i = 0; i < 2000 && !served.ok(); ++i) {  // until what was cancelled is out of the way
    served = (*engine)->ClassifyAndWait(request);
    if (!served.ok()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_TRUE(served.ok()) << served.status();
}

}  // namespace
}  // namespace beamline::rerank_golden_test
