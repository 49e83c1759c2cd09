// Which checkpoints have the head of a masked language model, and of which tensors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/models/models.h"
#include "tests/engine/checkpoint/checkpoint_folder.h"

namespace beamline::mask_heads_test {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;

constexpr char kDense[] = "cls.predictions.transform.dense.weight";
constexpr char kTable[] = "bert.embeddings.word_embeddings.weight";
constexpr char kBias[] = "cls.predictions.bias";
constexpr char kOwn[] = "cls.predictions.decoder.weight";
constexpr char kOwnBias[] = "cls.predictions.decoder.bias";

// Of a BERT with these tensors, each of one number.
std::optional<MaskHeadSpec> HeadOf(const std::vector<std::string>& tensors,
                                   const json& fields = json::object(), bool has_modules = false) {
  TemporaryFolder folder;
  json config = {{"model_type", "bert"}, {"architectures", {"BertForMaskedLM"}},
                 {"hidden_size", 4},     {"num_attention_heads", 2},
                 {"hidden_act", "relu"}, {"layer_norm_eps", 1e-6}};
  config.update(fields);
  folder.WriteJson("config.json", config);
  std::vector<NamedShape> list;
  for (const std::string& name : tensors) list.push_back({name, {1}});
  folder.Write("model.safetensors", SafetensorsOf(list));
  if (has_modules) {
    const auto module = [](int index, const char* path, const std::string& type) {
      return json{{"idx", index},
                  {"name", std::to_string(index)},
                  {"path", path},
                  {"type", "sentence_transformers.models." + type}};
    };
    folder.WriteJson("modules.json", json::array({module(0, "", "Transformer"),
                                                  module(1, "1_Pooling", "Pooling")}));
    folder.WriteJson("1_Pooling/config.json", {{"word_embedding_dimension", 4}});
  }
  const auto checkpoint = Checkpoint::Open(folder.path());
  EXPECT_TRUE(checkpoint.ok()) << checkpoint.status();
  const auto description = DescribeModel(**checkpoint);
  EXPECT_TRUE(description.ok()) << description.status();
  return description.ok() ? description->spec.mask_head : std::nullopt;
}

TEST(MaskHeads, HaveTheTableOfTokensUnlessTheyHaveTheirOwn) {
  auto head = HeadOf({kDense, kTable, kBias});
  ASSERT_TRUE(head.has_value());
  EXPECT_EQ(head->activation, Activation::kRelu);
  EXPECT_FLOAT_EQ(head->norm_epsilon, 1e-6f);
  EXPECT_EQ(head->norm.gain, "cls.predictions.transform.LayerNorm.weight");
  EXPECT_THAT(head->dense.weights, ElementsAre(kDense));
  EXPECT_THAT(head->output.weights, ElementsAre(kTable));
  EXPECT_THAT(head->output.biases, ElementsAre(kBias));
  head = HeadOf({kDense, kTable, kBias, kOwn, kOwnBias}, {{"tie_word_embeddings", false}});
  ASSERT_TRUE(head.has_value());
  EXPECT_THAT(head->output.weights, ElementsAre(kOwn));
  EXPECT_THAT(head->output.biases, ElementsAre(kOwnBias));
}

TEST(MaskHeads, OfTensorFlowHaveItsNames) {
  const auto head = HeadOf({kDense, kTable, kBias, "cls.predictions.transform.LayerNorm.gamma"},
                           {{"architectures", {"BertForPreTraining"}}});
  ASSERT_TRUE(head.has_value());
  EXPECT_EQ(head->norm.gain, "cls.predictions.transform.LayerNorm.gamma");
  EXPECT_EQ(head->norm.bias, "cls.predictions.transform.LayerNorm.beta");
}

// ModernBERT's biases are those that config.json asks for, whatever is stored.
TEST(MaskHeads, OfModernBertHaveBiasesAsConfigured) {
  const std::vector<std::string> tensors = {"head.dense.weight", "head.dense.bias",
                                            "head.norm.weight",  "head.norm.bias",
                                            "decoder.weight",    "decoder.bias"};
  json fields = {{"model_type", "modernbert"}, {"architectures", {"ModernBertForMaskedLM"}}};
  auto head = HeadOf(tensors, fields);
  ASSERT_TRUE(head.has_value());
  EXPECT_THAT(head->output.biases, ElementsAre("decoder.bias"));
  EXPECT_THAT(head->dense.biases, ElementsAre());
  EXPECT_EQ(head->norm.bias, "");
  fields.update({{"decoder_bias", false}, {"classifier_bias", true}, {"norm_bias", true}});
  head = HeadOf(tensors, fields);
  ASSERT_TRUE(head.has_value());
  EXPECT_THAT(head->output.biases, ElementsAre());
  EXPECT_THAT(head->dense.biases, ElementsAre("head.dense.bias"));
  EXPECT_EQ(head->norm.bias, "head.norm.bias");
}

// The model is an encoder then, as it always was.
TEST(MaskHeads, AreOfWholeHeadsOfMaskedLanguageModels) {
  EXPECT_FALSE(HeadOf({kTable}).has_value());
  EXPECT_FALSE(HeadOf({kDense, kTable}).has_value());
  EXPECT_FALSE(HeadOf({kTable, kBias}).has_value());
  EXPECT_FALSE(HeadOf({kDense, kTable, kBias}, {{"tie_word_embeddings", false}}).has_value());
  EXPECT_FALSE(HeadOf({kDense, kTable, kBias}, {{"architectures", {"BertModel"}}}).has_value());
  EXPECT_FALSE(HeadOf({kDense, kTable, kBias}, json::object(), /*has_modules=*/true).has_value());
}

}  // namespace
}  // namespace beamline::mask_heads_test
