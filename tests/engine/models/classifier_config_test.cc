#include "engine/models/classifier_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/engine/checkpoint/checkpoint_folder.h"

namespace beamline::classifier_config_test {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int kHidden = 4;

json Config(const json& fields = json::object()) {
  json config = {{"model_type", "bert"},
                 {"architectures", {"BertForSequenceClassification"}},
                 {"hidden_size", kHidden},
                 {"num_attention_heads", 2}};
  config.update(fields);
  return config;
}

// A folder of a classifier with so many classes.
class Folder {
 public:
  explicit Folder(const json& config, int num_labels = 3) {
    folder_.WriteJson("config.json", config);
    const bool is_roberta = config["model_type"] == "roberta";
    folder_.Write("model.safetensors",
                  SafetensorsOf({{is_roberta ? "classifier.out_proj.weight" : "classifier.weight",
                                  {num_labels, kHidden}}}));
  }
  Folder& With(const std::string& file, const json& value) {
    folder_.WriteJson(file, value);
    return *this;
  }
  absl::StatusOr<ModelDescription> Describe() const {
    auto checkpoint = Checkpoint::Open(folder_.path());
    if (!checkpoint.ok()) return checkpoint.status();
    return DescribeModel(**checkpoint);
  }
  ModelDescription Described() const {
    auto description = Describe();
    EXPECT_TRUE(description.ok()) << description.status();
    return description.ok() ? *std::move(description) : ModelDescription();
  }
  std::string Error() const {
    const auto description = Describe();
    return description.ok() ? "" : std::string(description.status().message());
  }

 private:
  TemporaryFolder folder_;
};

const json kThree = {{"id2label", {{"0", "a"}, {"1", "b"}, {"2", "c"}}}};
const json kOne = {{"id2label", {{"0", "LABEL_0"}}}};

TEST(ClassifierConfig, HasTheHeadOfItsFamily) {
  const ClassifierSpec bert = *Folder(Config(kThree)).Described().spec.classifier;
  EXPECT_THAT(bert.dense.weights, ElementsAre("pooler.dense.weight"));
  EXPECT_THAT(bert.output.weights, ElementsAre("classifier.weight"));
  EXPECT_THAT(bert.output.biases, ElementsAre("classifier.bias"));
  EXPECT_EQ(bert.num_labels, 3);
  json config = Config(kThree);
  config["model_type"] = "roberta";
  config["architectures"] = {"RobertaForSequenceClassification"};
  const ClassifierSpec roberta = *Folder(config).Described().spec.classifier;
  EXPECT_THAT(roberta.dense.weights, ElementsAre("classifier.dense.weight"));
  EXPECT_THAT(roberta.output.weights, ElementsAre("classifier.out_proj.weight"));
  EXPECT_FALSE(Folder(Config({{"architectures", {"BertModel"}}})).Describe().ok());
  config["model_type"] = "electra";
  config["embedding_size"] = kHidden;
  config["architectures"] = {"ElectraForSequenceClassification"};
  const ClassifierSpec electra = *Folder(config).Described().spec.classifier;
  EXPECT_THAT(electra.output.weights, ElementsAre("classifier.out_proj.weight"));
  EXPECT_EQ(electra.activation, Activation::kGelu);
  config = Config(kThree);
  config["model_type"] = "distilbert";
  config["architectures"] = {"DistilBertForSequenceClassification"};
  const ModelDescription distilbert = Folder(config).Described();
  EXPECT_THAT(distilbert.spec.classifier->dense.weights, ElementsAre("pre_classifier.weight"));
  EXPECT_EQ(distilbert.spec.classifier->activation, Activation::kRelu);
  EXPECT_EQ(distilbert.spec.encoder->hidden_size, kHidden);  // by its other name
  config["n_heads"] = 3;
  EXPECT_THAT(Folder(config).Error(), HasSubstr("num_attention_heads is 2; it is n_heads's other"));
}

TEST(ClassifierConfig, LabelsAreThoseOfTheirIds) {
  EXPECT_THAT(Folder(Config(kThree)).Described().classifying.labels, ElementsAre("a", "b", "c"));
  EXPECT_THAT(Folder(Config({{"num_labels", 3}})).Described().classifying.labels,
              ElementsAre("LABEL_0", "LABEL_1", "LABEL_2"));
  EXPECT_THAT(Folder(Config(), 2).Described().classifying.labels,
              ElementsAre("LABEL_0", "LABEL_1"));
}

TEST(ClassifierConfig, LabelsWithFaultsAreRefused) {
  const std::vector<std::pair<json, std::string>> cases = {
      {{{"id2label", {{"0", "a"}, {"2", "c"}, {"3", "d"}}}}, "\"1\" is the first that is not"},
      {{{"id2label", {{"1", "a"}, {"2", "c"}, {"3", "d"}}}}, "\"0\" is the first that is not"},
      {{{"id2label", {{"0", "a"}, {"1", 7}, {"2", "d"}}}}, "\"1\" is the first that is not"},
      {{{"id2label", json::object()}}, "id2label is {}; an object is expected of 1 to 8192"},
      {{{"id2label", {"a", "b", "c"}}}, "id2label is [\"a\",\"b\",\"c\"]; an object"},
      {{{"id2label", kThree["id2label"]}, {"num_labels", 2}},
       "num_labels is 2; 3 is expected, as id2label has"},
      {{{"num_labels", 0}}, "num_labels is 0; a whole number from 1 to 8192"},
      {{{"num_labels", 8193}}, "num_labels is 8193; a whole number"},
      {{{"num_labels", 4}},
       "num_labels is 4; 3 is expected, the rows of tensor \"classifier.weight\""},
      {kOne, "3 is expected, the rows of tensor \"classifier.weight\""},
      {{{"num_labels", 3}, {"problem_type", "ranking"}}, "problem_type is \"ranking\"; supported"},
  };
  for (const auto& [fields, error] : cases) {
    EXPECT_THAT(Folder(Config(fields)).Error(), HasSubstr(error)) << fields;
    EXPECT_THAT(Folder(Config(fields)).Error(), HasSubstr("config.json: ")) << fields;
  }
  // Of as many classes as the tensor has no rows, the default.
  EXPECT_THAT(Folder(Config()).Error(), HasSubstr("num_labels is missing; 3 is expected"));
}

TEST(ClassifierConfig, TheFunctionIsTheOneOfTransformersPipeline) {
  const auto function = [](const char* problem, int num_labels) {
    return Folder(Config({{"problem_type", problem}, {"num_labels", num_labels}}), num_labels)
        .Described()
        .classifying.function;
  };
  EXPECT_EQ(Folder(Config(kThree)).Described().classifying.function, ScoreFunction::kSoftmax);
  EXPECT_EQ(Folder(Config(kOne), 1).Described().classifying.function, ScoreFunction::kSigmoid);
  EXPECT_EQ(function("regression", 1), ScoreFunction::kNone);
  EXPECT_EQ(function("regression", 3), ScoreFunction::kNone);
  EXPECT_EQ(function("multi_label_classification", 3), ScoreFunction::kSigmoid);
  EXPECT_EQ(function("single_label_classification", 3), ScoreFunction::kSoftmax);
  const json one = {{"problem_type", "single_label_classification"}, {"num_labels", 1}};
  EXPECT_THAT(Folder(Config(one), 1).Error(), HasSubstr("it has two classes at least"));
}

TEST(ClassifierConfig, RerankingIsAsTheCrossEncoderSays) {
  const auto function = [](const json& fields, int num_labels = 1) {
    json config = Config({{"num_labels", num_labels}});
    config.update(fields);
    return Folder(config, num_labels).Described().classifying.rank_function;
  };
  const json identity = "torch.nn.modules.linear.Identity";
  const json sigmoid = "torch.nn.modules.activation.Sigmoid";
  EXPECT_EQ(function(json::object()), ScoreFunction::kSigmoid);
  EXPECT_EQ(function({{"problem_type", "regression"}}), ScoreFunction::kSigmoid);
  EXPECT_EQ(function(json::object(), 3), ScoreFunction::kNone);
  EXPECT_EQ(function({{"sentence_transformers", {{"activation_fn", identity}}}}),
            ScoreFunction::kNone);
  EXPECT_EQ(function({{"sentence_transformers", {{"activation_fn", sigmoid}}}}),
            ScoreFunction::kSigmoid);
  EXPECT_EQ(function({{"sbert_ce_default_activation_function", identity}}), ScoreFunction::kNone);
  // The newer field counts.
  EXPECT_EQ(function({{"sentence_transformers", {{"activation_fn", sigmoid}}},
                      {"sbert_ce_default_activation_function", identity}}),
            ScoreFunction::kSigmoid);
  for (const char* other : {"torch.nn.modules.activation.Tanh", "mine.Sigmoid", ""}) {
    const json fields = {{"num_labels", 1}, {"sentence_transformers", {{"activation_fn", other}}}};
    EXPECT_THAT(Folder(Config(fields), 1).Error(),
                HasSubstr("sentence_transformers: activation_fn is"));
  }
}

// As sentence-transformers 6 saves a CrossEncoder.
TEST(ClassifierConfig, ModulesOfACrossEncoder) {
  const json module = {{"idx", 0},
                       {"name", "0"},
                       {"path", ""},
                       {"type", "sentence_transformers.base.modules.transformer.Transformer"}};
  const json modules = json::array({module});
  const json settings = {
      {"transformer_task", "sequence-classification"},
      {"modality_config", {{"text", {{"method", "forward"}, {"method_output_name", "logits"}}}}},
      {"module_output_name", "scores"},
      {"max_seq_length", 128}};
  const json encoder = {{"model_type", "CrossEncoder"},
                        {"activation_fn", "torch.nn.modules.linear.Identity"},
                        {"prompts", json::object()},
                        {"default_prompt_name", nullptr}};
  Folder folder(Config(kOne), 1);
  // Without modules.json the folder is one of transformers.
  folder.With("sentence_bert_config.json", settings)
      .With("config_sentence_transformers.json", encoder);
  EXPECT_EQ(folder.Described().classifying.rank_function, ScoreFunction::kSigmoid);
  EXPECT_EQ(folder.Described().encoding.max_input_tokens, 0);
  folder.With("modules.json", modules);
  EXPECT_EQ(folder.Described().classifying.rank_function, ScoreFunction::kNone);
  EXPECT_EQ(folder.Described().encoding.max_input_tokens, 128);

  json other = modules;
  other.push_back(module);
  folder.With("modules.json", other);
  EXPECT_THAT(folder.Error(), HasSubstr("a classifier is one module, Transformer"));
  other = modules;
  other[0]["type"] = "sentence_transformers.models.Pooling";
  folder.With("modules.json", other);
  EXPECT_THAT(folder.Error(), HasSubstr("a classifier's first module is Transformer"));
  other = modules;
  other[0]["path"] = "0_Transformer";
  folder.With("modules.json", other);
  EXPECT_THAT(folder.Error(), HasSubstr("the model is expected in the folder itself"));
  for (const json& none : {json::object(), json::array(), json::array({1})}) {
    folder.With("modules.json", none);
    EXPECT_THAT(folder.Error(), HasSubstr("modules.json: an array of objects is expected"));
  }
  folder.With("modules.json", modules);
  other = encoder;
  other["model_type"] = "SentenceTransformer";
  folder.With("config_sentence_transformers.json", other);
  EXPECT_THAT(folder.Error(), HasSubstr("only \"CrossEncoder\" is supported"));
  other = encoder;
  other["default_prompt_name"] = "query";
  folder.With("config_sentence_transformers.json", other);
  EXPECT_THAT(folder.Error(), HasSubstr("a classifier's prompts are not supported"));
  folder.With("config_sentence_transformers.json", encoder);
  other = settings;
  other["transformer_task"] = "feature-extraction";
  folder.With("sentence_bert_config.json", other);
  EXPECT_THAT(folder.Error(), HasSubstr("only \"sequence-classification\" is supported"));
}

// A decoder's classifier, with a head of so many rows.
std::string DecoderError(const json& fields, int num_labels, ModelDescription* described) {
  json config = {{"model_type", "gemma"},    {"architectures", {"GemmaForSequenceClassification"}},
                 {"hidden_size", kHidden},   {"num_attention_heads", 2},
                 {"num_key_value_heads", 2}, {"head_dim", 2}};
  config.update(fields);
  TemporaryFolder folder;
  folder.WriteJson("config.json", config);
  folder.Write("model.safetensors", SafetensorsOf({{"score.weight", {num_labels, kHidden}}}));
  auto checkpoint = Checkpoint::Open(folder.path());
  if (!checkpoint.ok()) return std::string(checkpoint.status().message());
  auto description = DescribeModel(**checkpoint);
  if (!description.ok()) return std::string(description.status().message());
  *described = *std::move(description);
  return "";
}

TEST(DecoderClassifierTest, IsAnEncoderThatReadsItsLastToken) {
  ModelDescription described;
  ASSERT_EQ(DecoderError(json::object(), 2, &described), "");
  const TransformerSpec& spec = described.spec;
  EXPECT_FALSE(spec.decoder.has_value());
  ASSERT_TRUE(spec.encoder.has_value() && spec.classifier.has_value());
  EXPECT_TRUE(spec.encoder->causal);
  EXPECT_EQ(spec.classifier->pooling, Pooling::kLast);
  EXPECT_THAT(spec.classifier->output.weights, ElementsAre("score.weight"));
  EXPECT_TRUE(spec.classifier->output.biases.empty());
}

// transformers: silence is the class's own id, null none.
TEST(DecoderClassifierTest, PaddingIsAsTheClassHasItUnlessTheFileSays) {
  ModelDescription described;
  ASSERT_EQ(DecoderError(json::object(), 2, &described), "");
  EXPECT_EQ(described.classifying.padding_id, 0);
  ASSERT_EQ(DecoderError({{"pad_token_id", 7}}, 2, &described), "");
  EXPECT_EQ(described.classifying.padding_id, 7);
  for (const json& none : {json(), json(-1)}) {
    ASSERT_EQ(DecoderError({{"pad_token_id", none}}, 2, &described), "");
    EXPECT_EQ(described.classifying.padding_id, -1);
  }
}

TEST(DecoderClassifierTest, RefusesWhatItDoesNotUnderstand) {
  ModelDescription described;
  EXPECT_THAT(DecoderError(json::object(), 3, &described),
              HasSubstr("num_labels is missing; 3 is expected"));
  EXPECT_THAT(DecoderError({{"pad_token_id", "x"}}, 2, &described),
              HasSubstr("pad_token_id is \"x\"; a whole number from -1 to 2147483647"));
  EXPECT_THAT(DecoderError({{"num_labels", 0}}, 2, &described), HasSubstr("num_labels is 0"));
}

}  // namespace
}  // namespace beamline::classifier_config_test
