// Classifiers of tokens against transformers' pipeline of token classification, by each strategy
// (tools/make_classifier_golden.py; fields and tolerances: tests/golden/README.md).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "server/wire/request.h"
#include "server/wire/response.h"
#include "tests/server/golden_classifier.h"

namespace beamline::classify_tokens_golden_test {
namespace {

using nlohmann::json;

class ClassifyTokensGoldenTest : public GoldenClassifierTest {
 protected:
  // Of all texts in one request.
  v1::ClassifyTokensResponse Ask(const std::string& strategy, bool leaves_out = false) {
    v1::ClassifyTokensRequest message;
    message.set_model("golden");
    for (const json& row : expected_["rows"]) message.add_inputs(row["text"].get<std::string>());
    v1::Aggregation aggregation = v1::AGGREGATION_NONE;
    EXPECT_TRUE(v1::Aggregation_Parse("AGGREGATION_" + strategy, &aggregation));
    message.set_aggregation(aggregation);
    if (!leaves_out) message.mutable_ignore_labels();
    message.set_truncate(v1::TRUNCATION_RIGHT);
    return Ask(message);
  }
  v1::ClassifyTokensResponse Ask(const v1::ClassifyTokensRequest& message) {
    const auto request = ToEngineRequest(message);
    EXPECT_TRUE(request.ok()) << request.status();
    const auto result = engine_->ClassifyTokensAndWait(*request);
    EXPECT_TRUE(result.ok()) << result.status();
    if (!result.ok()) return {};
    return ToClassifyTokensMessage(*result, engine_->Models().front().labels,
                                   **engine_->FindTokenizer("golden"),
                                   ToTokenAnswerOptions(message), AnswerOptions());
  }

  void ExpectEntities(const std::string& strategy, const char* name) {
    const v1::ClassifyTokensResponse response = Ask(strategy);
    ASSERT_EQ(response.classifications_size(), static_cast<int>(expected_["rows"].size()));
    for (int i = 0; i < response.classifications_size(); ++i) {
      const json& row = expected_["rows"][static_cast<size_t>(i)];
      const auto& found = response.classifications(i).entities();
      ASSERT_EQ(found.size(), static_cast<int>(row[name].size())) << row["text"];
      for (int e = 0; e < found.size(); ++e) {
        const json& one = row[name][static_cast<size_t>(e)];
        EXPECT_EQ(found[e].label(), one["entity_group"]) << one;
        EXPECT_EQ(found[e].text(), one["word"]) << one;
        EXPECT_EQ(found[e].begin(), one["start"]) << one;
        EXPECT_EQ(found[e].end(), one["end"]) << one;
        EXPECT_NEAR(found[e].score(), one["score"].get<float>(), kTolerance) << one;
      }
    }
  }
};

TEST_P(ClassifyTokensGoldenTest, TokensAreThoseOfThePipeline) {
  const ModelInfo info = engine_->Models().front();
  EXPECT_EQ(info.task, ModelTask::kClassifyTokens);
  EXPECT_EQ(info.labels, expected_["labels"].get<std::vector<std::string>>());
  const v1::ClassifyTokensResponse response = Ask("NONE");
  ASSERT_EQ(response.classifications_size(), static_cast<int>(expected_["rows"].size()));
  for (int i = 0; i < response.classifications_size(); ++i) {
    const json& row = expected_["rows"][static_cast<size_t>(i)];
    const v1::TokenClassification& found = response.classifications(i);
    EXPECT_EQ(found.num_tokens(), static_cast<int>(row["ids"].size()));
    ASSERT_EQ(found.tokens_size(), static_cast<int>(row["none"].size())) << row["text"];
    for (int t = 0; t < found.tokens_size(); ++t) {
      const json& one = row["none"][static_cast<size_t>(t)];
      const v1::ClassifiedToken& token = found.tokens(t);
      EXPECT_EQ(token.index(), one["index"]) << one;
      EXPECT_EQ(token.id(), row["ids"][static_cast<size_t>(token.index())]) << one;
      EXPECT_EQ(token.piece(), one["word"]) << one;
      EXPECT_EQ(token.begin(), one["start"]) << one;
      EXPECT_EQ(token.end(), one["end"]) << one;
      ASSERT_EQ(token.classes_size(), 1);
      EXPECT_EQ(token.classes(0).label(), one["entity"]) << one;
      EXPECT_NEAR(token.classes(0).score(), one["score"].get<float>(), kTolerance) << one;
    }
  }
}

TEST_P(ClassifyTokensGoldenTest, EntitiesAreThoseOfThePipeline) {
  ExpectEntities("SIMPLE", "simple");
  ExpectEntities("FIRST", "first");
  ExpectEntities("AVERAGE", "average");
  ExpectEntities("MAX", "max");
}

// "O", unless the request says which.
TEST_P(ClassifyTokensGoldenTest, IgnoredLabelsAreLeftOut) {
  const auto count_o = [](const json& parts, const char* field) {
    return std::ranges::count_if(parts, [&](const json& part) { return part[field] == "O"; });
  };
  const v1::ClassifyTokensResponse tokens = Ask("NONE", /*leaves_out=*/true);
  const v1::ClassifyTokensResponse entities = Ask("SIMPLE", /*leaves_out=*/true);
  for (int i = 0; i < tokens.classifications_size(); ++i) {
    const json& row = expected_["rows"][static_cast<size_t>(i)];
    EXPECT_EQ(tokens.classifications(i).tokens_size(),
              static_cast<int>(row["none"].size()) - count_o(row["none"], "entity"));
    EXPECT_EQ(entities.classifications(i).entities_size(),
              static_cast<int>(row["simple"].size()) - count_o(row["simple"], "entity_group"));
  }
}

TEST_P(ClassifyTokensGoldenTest, TheBestClassesAddUpToOne) {
  v1::ClassifyTokensRequest message;
  message.set_model("golden");
  message.add_inputs("the quick fox");
  message.mutable_ignore_labels();
  message.set_top(100);
  const v1::ClassifyTokensResponse response = Ask(message);
  ASSERT_EQ(response.classifications_size(), 1);
  ASSERT_GT(response.classifications(0).tokens_size(), 0);
  for (const v1::ClassifiedToken& token : response.classifications(0).tokens()) {
    ASSERT_EQ(token.classes_size(), static_cast<int>(expected_["labels"].size()));
    float sum = 0;
    for (int c = 0; c < token.classes_size(); ++c) {
      if (c > 0) {
        EXPECT_LE(token.classes(c).score(), token.classes(c - 1).score());
      }
      sum += token.classes(c).score();
    }
    EXPECT_NEAR(sum, 1.0f, 1e-5f);
  }
}

INSTANTIATE_TEST_SUITE_P(Classifiers, ClassifyTokensGoldenTest,
                         ::testing::Values(GoldenClassifier{"bert-3x8-tokens"},
                                           GoldenClassifier{"roberta-3x8-tokens"},
                                           GoldenClassifier{"xlm-roberta-2x12-tokens"},
                                           GoldenClassifier{"electra-3x8-tokens"},
                                           GoldenClassifier{"distilbert-5x6-tokens"},
                                           GoldenClassifier{"albert-3x8-tokens"},
                                           GoldenClassifier{"mpnet-3x8-tokens"},
                                           GoldenClassifier{"modernbert-3x8-tokens"},
                                           GoldenClassifier{"nomic_bert-2x8-tokens"},
                                           GoldenClassifier{"deberta-v2-3x8-tokens"},
                                           GoldenClassifier{"deberta-5x6-tokens"}));
INSTANTIATE_TEST_SUITE_P(Decoders, ClassifyTokensGoldenTest,
                         ::testing::Values(GoldenClassifier{"llama-4of2x6-tokens"},
                                           GoldenClassifier{"qwen3-4of2x6-tokens"},
                                           GoldenClassifier{"gpt2-3x8-tokens"},
                                           GoldenClassifier{"gemma-4of2x6-tokens"},
                                           GoldenClassifier{"bloom-3x8-tokens"}));
INSTANTIATE_TEST_SUITE_P(OnRanks, ClassifyTokensGoldenTest,
                         ::testing::Values(GoldenClassifier{"bert-3x8-tokens", 3, 1},
                                           GoldenClassifier{"bert-3x8-tokens", 1, 2}));

}  // namespace
}  // namespace beamline::classify_tokens_golden_test
