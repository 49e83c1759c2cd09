// Classifiers and rerankers against what transformers answers for them
// (tools/make_classifier_golden.py; fields and tolerances: tests/golden/README.md).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "engine/text/tokenizer.h"
#include "tests/engine/demo_engine.h"
#include "tests/golden/golden_rows.h"

namespace beamline::classify_golden_test {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

// Sums in another order err as much as float32 itself did in the reference.
constexpr float kErrorFactor = 10.0f;
constexpr float kLeastTolerance = 2e-5f;

struct Model {
  const char* folder;
  int num_ranks = 1;
  int num_stages = 1;
  int max_batch_tokens = 4096;
};

void PrintTo(const Model& model, std::ostream* out) { *out << model.folder; }

absl::StatusOr<std::unique_ptr<Engine>> Serve(const Model& model) {
  EngineOptions options = TestEngineOptions();
  ModelOptions one = Demo("golden");
  one.folder = std::string(BEAMLINE_SOURCE_DIR) + "/tests/golden/classifiers/" + model.folder;
  // A divided model is asked for by name: these sizes divide by no number that all have.
  one.tensor_parallel = one.pipeline_parallel = 1;
  one.device = TestDevice();
  one.max_batch_tokens = model.max_batch_tokens;
  if (model.num_ranks * model.num_stages > 1)
    one = OnStages(one, model.num_stages, model.num_ranks);
  options.models = {one};
  return Engine::Create(options);
}

ClassifyInput InputOf(const json& row) {
  const auto text = row["text"].get<std::string>();
  if (row["pair"].is_null()) return text;
  return TextPair{text, row["pair"].get<std::string>()};
}

EncodeTruncation TruncationOf(const json& row) {
  if (row["truncate"].is_null()) return EncodeTruncation::kNone;
  return row["truncate"] == "left" ? EncodeTruncation::kLeft : EncodeTruncation::kRight;
}

ClassifyRequest RequestOf(const json& row, std::optional<ScoreFunction> function) {
  ClassifyRequest request;
  request.model = "golden";
  request.inputs.push_back(InputOf(row));
  request.truncate = TruncationOf(row);
  request.function = function;
  return request;
}

class ClassifyGoldenTest : public ::testing::TestWithParam<Model> {
 protected:
  void SetUp() override {
    auto engine = Serve(GetParam());
    ASSERT_TRUE(engine.ok()) << engine.status();
    engine_ = *std::move(engine);
    expected_ = GoldenFile(std::string("classifiers/") + GetParam().folder + "/expected.json");
    ASSERT_GT(expected_["rows"].size(), 10u);
  }

  void ExpectScores(const absl::StatusOr<EncodeResult>& result, size_t input, const json& row,
                    const char* what) const {
    ASSERT_TRUE(result.ok()) << result.status();
    const Embedding& found = result->embeddings[input];
    EXPECT_EQ(found.num_tokens, static_cast<int32_t>(NumCounted(row["ids"].get<TokenIds>())));
    const float tolerance =
        std::max(kLeastTolerance, kErrorFactor * row["float32_error"].get<float>());
    EXPECT_THAT(found.values, testing::Pointwise(testing::FloatNear(tolerance),
                                                 row[what].get<std::vector<float>>()))
        << row.dump();
  }

  // Without what is padding at the end, which a decoder's classifier neither sees nor counts.
  size_t NumCounted(const TokenIds& ids) const {
    size_t count = ids.size();
    const json padding_id = expected_.value("padding_id", json());
    while (!padding_id.is_null() && count > 1 && ids[count - 1] == padding_id) --count;
    return count;
  }

  std::unique_ptr<Engine> engine_;
  json expected_;
};

TEST_P(ClassifyGoldenTest, AnswersAreTheReferences) {
  const ModelInfo info = engine_->Models().front();
  EXPECT_EQ(info.task, ModelTask::kClassify);
  EXPECT_EQ(info.labels, expected_["labels"].get<std::vector<std::string>>());
  EXPECT_EQ(info.embedding_dimensions, 0);
  for (const json& row : expected_["rows"]) {
    ExpectScores(engine_->ClassifyAndWait(RequestOf(row, ScoreFunction::kNone)), 0, row, "logits");
    ExpectScores(engine_->ClassifyAndWait(RequestOf(row, std::nullopt)), 0, row, "scores");
  }
}

// In one batch inputs of each kind stand beside each other: of one text and of two.
TEST_P(ClassifyGoldenTest, InputsOfOneRequestAreAnsweredAsAlone) {
  for (const bool reverse : {false, true}) {
    std::vector<json> rows;
    ClassifyRequest request;
    request.model = "golden";
    request.function = ScoreFunction::kNone;
    request.truncate = EncodeTruncation::kRight;
    for (const json& row : expected_["rows"]) {
      if (row["truncate"] != "left") rows.push_back(row);
    }
    if (reverse) std::ranges::reverse(rows);
    for (const json& row : rows) request.inputs.push_back(InputOf(row));
    const auto result = engine_->ClassifyAndWait(request);
    for (size_t i = 0; i < rows.size(); ++i) ExpectScores(result, i, rows[i], "logits");
  }
}

TEST_P(ClassifyGoldenTest, IdsAreTakenAsTheyAre) {
  for (const json& row : expected_["rows"]) {
    if (!row["pair"].is_null()) continue;  // whose types ids alone do not tell
    ClassifyRequest request = RequestOf(row, ScoreFunction::kNone);
    request.inputs = {row["ids"].get<TokenIds>()};
    ExpectScores(engine_->ClassifyAndWait(request), 0, row, "logits");
  }
}

TEST_P(ClassifyGoldenTest, AQueryIsTheFirstTextOfEachPair) {
  const bool reranks = expected_["labels"].size() == 1;
  for (const json& row : expected_["rows"]) {
    if (row["pair"].is_null() || row["text"] == "") continue;
    ClassifyRequest request = RequestOf(row, ScoreFunction::kNone);
    request.query = row["text"].get<std::string>();
    request.inputs = {row["pair"].get<std::string>(), row["pair"].get<std::string>()};
    const auto result = engine_->ClassifyAndWait(request);
    if (reranks) {
      ExpectScores(result, 0, row, "logits");
      ExpectScores(result, 1, row, "logits");
    } else {
      EXPECT_THAT(std::string(result.status().message()),
                  HasSubstr("classes; a reranker has one; Rerank accepts the others"));
    }
  }
}

// "bert-2x10-rank" says Identity, which counts for reranking alone; xlm-roberta says nothing.
TEST_P(ClassifyGoldenTest, RerankingAppliesWhatTheCrossEncoderSays) {
  if (expected_["labels"].size() != 1) return;
  ClassifyRequest request = RequestOf(expected_["rows"][0], std::nullopt);
  request.query = "who";
  request.inputs = {"mail"};
  const auto of = [&](std::optional<ScoreFunction> function) {
    request.function = function;
    return engine_->ClassifyAndWait(request)->embeddings[0].values[0];
  };
  const float raw = of(ScoreFunction::kNone);
  const float sigmoid = of(ScoreFunction::kSigmoid);
  EXPECT_NEAR(sigmoid, 1 / (1 + std::exp(-raw)), 1e-6);
  EXPECT_EQ(of(ScoreFunction::kSoftmax), 1.0f);
  const bool identity = std::string(GetParam().folder).starts_with("bert");
  EXPECT_EQ(of(std::nullopt), identity ? raw : sigmoid);
  EXPECT_NE(raw, sigmoid);
}

TEST_P(ClassifyGoldenTest, WhatIsTooLongIsRefusedWithBothLengths) {
  for (const json& row : expected_["rows"]) {
    if (row["truncate"].is_null()) continue;
    ClassifyRequest request = RequestOf(row, std::nullopt);
    request.truncate = EncodeTruncation::kNone;
    const auto result = engine_->ClassifyAndWait(request);
    EXPECT_EQ(result.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(result.status().message()),
                testing::AllOf(HasSubstr("inputs[0] has "), HasSubstr("accepted: at most 24"),
                               HasSubstr("set truncate to cut it")));
  }
}

INSTANTIATE_TEST_SUITE_P(Classifiers, ClassifyGoldenTest,
                         ::testing::Values(Model{"bert-3x8"}, Model{"bert-5x6-labels"},
                                           Model{"bert-2x10-rank"}, Model{"bert-2x10-untyped"},
                                           Model{"roberta-3x8"}, Model{"xlm-roberta-2x12-rank"},
                                           Model{"electra-3x8"}, Model{"distilbert-5x6"},
                                           Model{"albert-3x8"}, Model{"mpnet-3x8"},
                                           Model{"modernbert-3x8-rank"},
                                           Model{"modernbert-2x10-bias"}, Model{"nomic_bert-2x8"},
                                           Model{"deberta-v2-3x8"}, Model{"deberta-v2-2x10-rank"},
                                           Model{"deberta-3x8"}));
INSTANTIATE_TEST_SUITE_P(
    Decoders, ClassifyGoldenTest,
    ::testing::Values(Model{"llama-4of2x6"}, Model{"mistral-4of2x6-rank"}, Model{"qwen2-4of2x6"},
                      Model{"qwen3-4of2x6-rank"}, Model{"gemma-4of2x6"},
                      Model{"gemma2-4of2x6-rank"}, Model{"gemma3-4of2x6"}, Model{"gpt2-3x8"},
                      Model{"gptj-3x8"}, Model{"gpt_neo-3x8"}, Model{"gpt_neox-3x8-rank"},
                      Model{"phi3-4of2x6"}, Model{"smollm3-4of2x6"}, Model{"starcoder2-4of2x6"},
                      Model{"olmo-4of2x6"}, Model{"olmo2-4of2x6"}, Model{"opt-3x8"},
                      Model{"opt-3x8-projected"}, Model{"bloom-3x8"}, Model{"falcon-3of1x8"},
                      Model{"falcon-3x8-alibi-rank"}, Model{"mixtral-4of2x6"},
                      Model{"qwen2_moe-4of2x6"}, Model{"qwen3_moe-4of2x6-rank"}));
// Inputs of 17 to 24 tokens are longer than a step.
INSTANTIATE_TEST_SUITE_P(
    InPieces, ClassifyGoldenTest,
    ::testing::Values(Model{"llama-4of2x6", 1, 1, 16}, Model{"mistral-4of2x6-rank", 1, 1, 16},
                      Model{"gemma2-4of2x6-rank", 1, 1, 16}, Model{"gpt2-3x8", 1, 1, 16},
                      Model{"bloom-3x8", 1, 1, 16}, Model{"falcon-3x8-alibi-rank", 1, 1, 16},
                      Model{"opt-3x8-projected", 1, 1, 16}, Model{"mixtral-4of2x6", 1, 1, 16}));
INSTANTIATE_TEST_SUITE_P(OnRanks, ClassifyGoldenTest,
                         ::testing::Values(Model{"bert-3x8", 3, 1}, Model{"roberta-3x8", 1, 2},
                                           Model{"bert-2x10-rank", 2, 2},
                                           Model{"llama-4of2x6", 2, 2},
                                           Model{"opt-3x8-projected", 3, 1},
                                           Model{"deberta-v2-2x10-rank", 2, 2}));

}  // namespace
}  // namespace beamline::classify_golden_test
