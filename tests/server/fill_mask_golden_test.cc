// Masked language models against transformers' pipeline of masks
// (tools/make_classifier_golden.py; fields and tolerances: tests/golden/README.md).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "server/wire/request.h"
#include "server/wire/response.h"
#include "tests/server/golden_classifier.h"

namespace beamline::fill_mask_golden_test {
namespace {

using nlohmann::json;

class FillMaskGoldenTest : public GoldenClassifierTest {
 protected:
  static v1::FillMaskRequest RequestOf(const json& row) {
    v1::FillMaskRequest message;
    message.set_model("golden");
    message.add_inputs(row["text"].get<std::string>());
    message.set_top_k(row["top_k"].get<int32_t>());
    if (!row["targets"].is_null()) {
      for (const json& target : row["targets"]) message.add_targets(target.get<std::string>());
    }
    return message;
  }

  v1::FillMaskResponse Ask(const v1::FillMaskRequest& message) {
    const auto request = ToEngineRequest(message);
    EXPECT_TRUE(request.ok()) << request.status();
    const auto result = engine_->FillMaskAndWait(*request);
    EXPECT_TRUE(result.ok()) << result.status();
    if (!result.ok()) return {};
    return ToFillMaskMessage(*result, **engine_->FindTokenizer("golden"), AnswerOptions());
  }

  static void ExpectMasks(const v1::FilledText& text, const json& row) {
    EXPECT_EQ(text.num_tokens(), static_cast<int>(row["ids"].size()));
    ASSERT_EQ(text.masks_size(), static_cast<int>(row["masks"].size())) << row["text"];
    for (int m = 0; m < text.masks_size(); ++m) {
      const v1::FilledMask& mask = text.masks(m);
      const json& fills = row["masks"][static_cast<size_t>(m)];
      EXPECT_EQ(mask.index(), row["positions"][static_cast<size_t>(m)]);
      ASSERT_EQ(mask.fills_size(), static_cast<int>(fills.size())) << row["text"];
      for (int f = 0; f < mask.fills_size(); ++f) {
        const json& one = fills[static_cast<size_t>(f)];
        EXPECT_EQ(mask.fills(f).id(), one["token"]) << one;
        EXPECT_EQ(mask.fills(f).text(), one["token_str"]) << one;
        EXPECT_EQ(mask.fills(f).sequence(), one["sequence"]) << one;
        EXPECT_NEAR(mask.fills(f).score(), one["score"].get<float>(), kTolerance) << one;
      }
    }
  }
};

TEST_P(FillMaskGoldenTest, TokensAreThoseOfThePipeline) {
  const ModelInfo info = engine_->Models().front();
  EXPECT_EQ(info.task, ModelTask::kEncode);
  EXPECT_EQ(info.mask_token, expected_["mask_token"]);
  for (const json& row : expected_["rows"]) {
    const v1::FillMaskResponse response = Ask(RequestOf(row));
    ASSERT_EQ(response.texts_size(), 1);
    ExpectMasks(response.texts(0), row);
  }
}

// Texts with masks beside each other and apart, in one batch.
TEST_P(FillMaskGoldenTest, TextsOfOneRequestAreAnsweredAsAlone) {
  v1::FillMaskRequest message;
  message.set_model("golden");
  message.set_top_k(2);
  std::vector<json> rows;
  for (const json& row : expected_["rows"]) {
    if (!row["targets"].is_null()) continue;
    rows.push_back(row);
    message.add_inputs(row["text"].get<std::string>());
    for (json& mask : rows.back()["masks"]) mask.erase(mask.begin() + 2, mask.end());
  }
  const v1::FillMaskResponse response = Ask(message);
  ASSERT_EQ(response.texts_size(), static_cast<int>(rows.size()));
  for (size_t i = 0; i < rows.size(); ++i)
    ExpectMasks(response.texts(static_cast<int>(i)), rows[i]);
}

// The bytes of the mask, which some tokenizers take with the space before it.
TEST_P(FillMaskGoldenTest, MasksAreWhereTheTextHasThem) {
  const auto mask = expected_["mask_token"].get<std::string>();
  for (const json& row : expected_["rows"]) {
    const auto text = row["text"].get<std::string>();
    size_t place = 0;
    const v1::FillMaskResponse response = Ask(RequestOf(row));
    for (const v1::FilledMask& found : response.texts(0).masks()) {
      place = text.find(mask, place);
      EXPECT_LE(found.begin(), static_cast<int>(place));
      place += mask.size();
      EXPECT_EQ(found.end(), static_cast<int>(place));
    }
  }
}

TEST_P(FillMaskGoldenTest, TheModelEncodesToo) {
  EncodeRequest request;
  request.model = "golden";
  request.inputs = {std::string("the quick fox")};
  const auto result = engine_->EncodeAndWait(request);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->embeddings[0].values.size(),
            static_cast<size_t>(engine_->Models().front().hidden_size));
  EXPECT_TRUE(result->masks.empty());
}

INSTANTIATE_TEST_SUITE_P(
    Models, FillMaskGoldenTest,
    ::testing::Values(
        GoldenClassifier{"bert-3x8-masks"}, GoldenClassifier{"roberta-3x8-masks"},
        GoldenClassifier{"xlm-roberta-2x12-masks"}, GoldenClassifier{"electra-3x8-masks"},
        GoldenClassifier{"distilbert-5x6-masks"}, GoldenClassifier{"albert-3x8-masks"},
        GoldenClassifier{"mpnet-3x8-masks"}, GoldenClassifier{"modernbert-3x8-masks"},
        GoldenClassifier{"modernbert-2x10-masks"}, GoldenClassifier{"nomic_bert-2x8-masks"},
        GoldenClassifier{"deberta-v2-3x8-masks"}, GoldenClassifier{"deberta-v2-2x8-masks"},
        GoldenClassifier{"deberta-3x8-masks"}));
INSTANTIATE_TEST_SUITE_P(OnRanks, FillMaskGoldenTest,
                         ::testing::Values(GoldenClassifier{"bert-3x8-masks", 3, 1},
                                           GoldenClassifier{"bert-3x8-masks", 1, 2}));

}  // namespace
}  // namespace beamline::fill_mask_golden_test
