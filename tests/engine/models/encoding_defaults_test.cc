// What sentence-transformers 6 makes of the files of its folders.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "engine/models/models.h"
#include "tests/engine/checkpoint/checkpoint_folder.h"

namespace beamline::encoding_defaults_test {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Named = std::pair<std::string, std::string>;

constexpr char kPooling[] = "1_Pooling/config.json";
constexpr char kTransformer[] = "sentence_bert_config.json";
constexpr char kModel[] = "config_sentence_transformers.json";

json Module(const std::string& kind, const std::string& path) {
  return {{"name", kind}, {"type", "sentence_transformers.models." + kind}, {"path", path}};
}

class EncodingDefaultsTest : public ::testing::Test {
 protected:
  EncodingDefaultsTest() {
    folder_.WriteJson("config.json", {{"model_type", "bert"}});
    folder_.Write("model.safetensors", SafetensorsOf({}));
  }

  // A folder of sentence-transformers that pools the first token.
  void WriteModules() {
    Modules({Module("Transformer", ""), Module("Pooling", "1_Pooling")});
    folder_.WriteJson(kPooling, {{"pooling_mode_cls_token", true}});
  }
  void Modules(const json& modules) { folder_.WriteJson("modules.json", modules); }

  absl::StatusOr<ModelDescription> Describe() const {
    const auto checkpoint = Checkpoint::Open(folder_.path());
    if (!checkpoint.ok()) return checkpoint.status();
    return DescribeModel(**checkpoint);
  }
  EncodingDefaults Read() const {
    auto description = Describe();
    EXPECT_TRUE(description.ok()) << description.status();
    return description.ok() ? description->encoding : EncodingDefaults();
  }
  std::string Error() const { return std::string(Describe().status().message()); }
  // Of a folder with this value in a file.
  std::string ErrorOf(const std::string& file, const json& value) {
    folder_.WriteJson(file, value);
    return Error();
  }
  EncodingDefaults ReadWith(const std::string& file, const json& value) {
    SCOPED_TRACE(value.dump());
    folder_.WriteJson(file, value);
    return Read();
  }

  TemporaryFolder folder_;
};

TEST_F(EncodingDefaultsTest, AreMeanPoolingWithoutModules) {
  // Without modules.json the others are files of no program.
  folder_.WriteJson(kTransformer, {{"max_seq_length", 32}, {"do_lower_case", true}});
  folder_.WriteJson(
      kModel,
      {{"prompts", {{"query", "query: "}}}, {"default_prompt_name", "query"}, {"truncate_dim", 8}});
  const EncodingDefaults defaults = Read();
  EXPECT_EQ(defaults.pooling, Pooling::kMean);
  EXPECT_FALSE(defaults.normalize);
  EXPECT_FALSE(defaults.lower_case);
  EXPECT_EQ(defaults.max_input_tokens, 0);
  EXPECT_EQ(defaults.dimensions, 0);
  EXPECT_TRUE(defaults.prompts.empty());
  EXPECT_EQ(defaults.default_prompt_name, "");
}

TEST_F(EncodingDefaultsTest, ReadPoolingModes) {
  WriteModules();
  EXPECT_EQ(Read().pooling, Pooling::kCls);
  const auto pooling = [&](const json& config) { return ReadWith(kPooling, config).pooling; };
  EXPECT_EQ(pooling({{"pooling_mode_max_tokens", true}}), Pooling::kMax);
  EXPECT_EQ(pooling({{"pooling_mode_mean_sqrt_len_tokens", true}}), Pooling::kMeanSqrtLength);
  EXPECT_EQ(pooling({{"pooling_mode_lasttoken", true}}), Pooling::kLast);
  EXPECT_EQ(pooling({{"pooling_mode", "lasttoken"}}), Pooling::kLast);
  EXPECT_EQ(pooling({{"pooling_mode", {"cls"}}, {"embedding_dimension", 768}}), Pooling::kCls);
  // None is mean, and the newer field counts.
  EXPECT_EQ(pooling({{"pooling_mode_cls_token", false}}), Pooling::kMean);
  EXPECT_EQ(pooling({{"word_embedding_dimension", 768}}), Pooling::kMean);
  EXPECT_EQ(pooling({{"pooling_mode", "max"}, {"pooling_mode_cls_token", true}}), Pooling::kMax);
}

TEST_F(EncodingDefaultsTest, RefuseOtherPooling) {
  WriteModules();
  const auto error = [&](const json& config) { return ErrorOf(kPooling, config); };
  EXPECT_THAT(error({{"pooling_mode_cls_token", true}, {"pooling_mode_mean_tokens", true}}),
              HasSubstr("1_Pooling/config.json: pooling_mode_mean_tokens is true; one of cls"));
  EXPECT_THAT(error({{"pooling_mode_weightedmean_tokens", true}}),
              HasSubstr("pooling_mode_weightedmean_tokens is true; one of"));
  EXPECT_THAT(error({{"pooling_mode", "weightedmean"}}),
              HasSubstr("pooling_mode is \"weightedmean\"; one of"));
  EXPECT_THAT(error({{"pooling_mode", {"cls", "mean"}}}),
              HasSubstr("pooling_mode is [\"cls\",\"mean\"]; one of"));
  EXPECT_THAT(error({{"word_embedding_dimension", 5}}),
              HasSubstr("word_embedding_dimension is 5; hidden_size 768"));
  EXPECT_THAT(error({{"embedding_dimension", 5}}), HasSubstr("embedding_dimension is 5; hidden"));
  EXPECT_THAT(error({{"pooling_scale", 2}}), HasSubstr("pooling_scale is 2; no such field"));
}

TEST_F(EncodingDefaultsTest, FollowTheOrderOfModules) {
  WriteModules();
  const json transformer = Module("Transformer", ""), pooling = Module("Pooling", "1_Pooling"),
             normalize = Module("Normalize", "2_Normalize"),
             dropout = Module("Dropout", "3_Dropout");
  Modules({transformer, pooling, dropout, normalize});
  EXPECT_TRUE(Read().normalize);
  Modules({transformer, normalize, pooling});  // would normalise nothing
  EXPECT_THAT(Error(), HasSubstr("Normalize\"; it is supported behind Pooling only"));
  Modules({pooling, transformer});
  EXPECT_THAT(Error(), HasSubstr("Pooling\"; one Pooling, behind the Transformer"));
  json second = pooling;
  second["name"] = "another";
  Modules({transformer, pooling, normalize, second});
  EXPECT_THAT(Error(), HasSubstr("Pooling\"; one Pooling, behind the Transformer"));
  second["name"] = "Transformer";  // a module of the same name is replaced
  Modules({transformer, second});
  EXPECT_THAT(Error(), HasSubstr("modules.json: name is \"Transformer\"; another module has it"));
  Modules(json::array({transformer}));
  EXPECT_THAT(Error(), HasSubstr("modules.json: no module is of type"));
  Modules(json::array());
  EXPECT_THAT(Error(), HasSubstr("modules.json: no module is of type"));
  Modules(json::object());
  EXPECT_THAT(Error(), HasSubstr("modules.json: an array is expected"));
}

TEST_F(EncodingDefaultsTest, RefuseOtherModules) {
  WriteModules();
  const json transformer = Module("Transformer", ""), pooling = Module("Pooling", "1_Pooling");
  Modules({transformer, pooling, Module("LSTM", "2_LSTM")});
  EXPECT_THAT(Error(), HasSubstr("type is \"sentence_transformers.models.LSTM\"; supported are"));
  Modules({transformer, pooling, Module("Dense", "2_Dense")});
  EXPECT_THAT(Error(), HasSubstr("2_Dense/config.json: no such file"));
  Modules({transformer, pooling, Module("Dense", "")});
  EXPECT_THAT(Error(), HasSubstr("path is \"\"; the name of a folder is expected"));
  json custom = pooling;
  custom["type"] = "custom_st.Pooling";
  Modules({transformer, custom});
  EXPECT_THAT(Error(), HasSubstr("type is \"custom_st.Pooling\"; supported are"));
  Modules({transformer, Module("Pooling", "../1_Pooling")});
  EXPECT_THAT(Error(), HasSubstr("path is \"../1_Pooling\"; the name of a folder"));
  Modules({Module("Transformer", "0_Transformer"), pooling});
  EXPECT_THAT(Error(), HasSubstr("path is \"0_Transformer\"; the model is expected in the folder"));
  Modules({transformer, pooling, Module("Normalize", "2_Normalize")});
  EXPECT_THAT(ErrorOf("2_Normalize/config.json", {{"module_input_name", "token_embeddings"}}),
              HasSubstr("2_Normalize/config.json: module_input_name is \"token_embeddings\""));
}

TEST_F(EncodingDefaultsTest, ReadTheTransformersSettings) {
  WriteModules();
  EXPECT_EQ(Read().max_input_tokens, 0);
  EXPECT_FALSE(Read().lower_case);
  const auto limit = [&](const json& config) {
    return ReadWith(kTransformer, config).max_input_tokens;
  };
  EXPECT_EQ(limit({{"max_seq_length", 128}}), 128);
  EXPECT_EQ(limit({{"max_seq_length", nullptr}}), 0);
  EXPECT_EQ(limit({{"max_seq_length", 128}, {"tokenizer_args", {{"model_max_length", 64}}}}), 64);
  EXPECT_EQ(limit({{"max_seq_length", 128},
                   {"processing_kwargs", {{"text", {{"max_length", 32}, {"padding", true}}}}}}),
            32);
  EXPECT_TRUE(ReadWith(kTransformer, {{"do_lower_case", true}}).lower_case);
  // As version 6 writes it.
  const json text = {{"method", "forward"}, {"method_output_name", "last_hidden_state"}};
  EXPECT_EQ(limit({{"transformer_task", "feature-extraction"},
                   {"modality_config", {{"text", text}}},
                   {"module_output_name", "token_embeddings"}}),
            0);
  // An older name counts where the newer one has nothing.
  folder_.WriteJson("sentence_roberta_config.json", {{"max_seq_length", 24}});
  EXPECT_EQ(limit({{"max_seq_length", 16}}), 16);
  EXPECT_EQ(limit(json::object()), 24);
}

TEST_F(EncodingDefaultsTest, RefuseOtherSettingsOfTheTransformer) {
  WriteModules();
  const auto error = [&](const json& config) { return ErrorOf(kTransformer, config); };
  EXPECT_THAT(error({{"max_seq_length", 0}}),
              HasSubstr("sentence_bert_config.json: max_seq_length is 0; a whole number from 1"));
  EXPECT_THAT(error({{"do_lower_case", "yes"}}), HasSubstr("do_lower_case is \"yes\"; true or"));
  EXPECT_THAT(error({{"query_length", 32}}), HasSubstr("query_length is 32; no such field"));
  EXPECT_THAT(error({{"tokenizer_name_or_path", "x"}}), HasSubstr("tokenizer_name_or_path is"));
  EXPECT_THAT(error({{"transformer_task", "fill-mask"}}), HasSubstr("is \"fill-mask\"; only"));
  EXPECT_THAT(error({{"module_output_name", "scores"}}), HasSubstr("is \"scores\"; only"));
  EXPECT_THAT(error({{"model_args", {{"torch_dtype", "float16"}}}}),
              HasSubstr("sentence_bert_config.json: model_args: torch_dtype is \"float16\"; no"));
  EXPECT_THAT(error({{"config_kwargs", {{"num_hidden_layers", 2}}}}),
              HasSubstr("config_kwargs: num_hidden_layers is 2; no such field"));
  EXPECT_THAT(error({{"processor_kwargs", {{"do_lower_case", true}}}}),
              HasSubstr("processor_kwargs: do_lower_case is true; no such field"));
  EXPECT_THAT(error({{"processing_kwargs", {{"text", {{"add_special_tokens", false}}}}}}),
              HasSubstr("processing_kwargs: text: add_special_tokens is false; no such field"));
  EXPECT_THAT(error({{"processing_kwargs", {{"common", {{"truncation", false}}}}}}),
              HasSubstr("processing_kwargs: common: truncation is false; only true"));
  EXPECT_THAT(
      error({{"modality_config",
              {{"text", {{"method", "forward"}, {"method_output_name", "pooler_output"}}}}}}),
      HasSubstr("modality_config is {"));
}

TEST_F(EncodingDefaultsTest, ReadPromptsAndDimensions) {
  WriteModules();
  EncodingDefaults defaults = ReadWith(kModel, {{"prompts", {{"query", "query: "}}},
                                                {"default_prompt_name", "query"},
                                                {"model_type", "SentenceTransformer"},
                                                {"truncate_dim", 64}});
  EXPECT_THAT(defaults.prompts, ElementsAre(Named("query", "query: ")));
  EXPECT_EQ(defaults.default_prompt_name, "query");
  EXPECT_EQ(defaults.dimensions, 64);
  // Every model has these two prompts; without a text they are empty.
  defaults =
      ReadWith(kModel, {{"prompts", {{"other", nullptr}}}, {"default_prompt_name", "document"}});
  EXPECT_THAT(defaults.prompts, ElementsAre(Named("other", "")));
  EXPECT_EQ(ReadWith(kModel, {{"truncate_dim", 768}}).dimensions, 0);
  EXPECT_EQ(ReadWith(kModel, {{"truncate_dim", 5000}}).dimensions, 0);
}

TEST_F(EncodingDefaultsTest, RefuseOtherSettingsOfTheModel) {
  WriteModules();
  const auto error = [&](const json& config) { return ErrorOf(kModel, config); };
  EXPECT_THAT(
      error({{"model_type", "SparseEncoder"}}),
      HasSubstr("config_sentence_transformers.json: model_type is \"SparseEncoder\"; only"));
  EXPECT_THAT(error({{"truncate_dim", 0}}), HasSubstr("truncate_dim is 0; a whole number from 1"));
  EXPECT_THAT(error({{"default_prompt_name", "x"}}),
              HasSubstr("default_prompt_name is \"x\"; it is not one of prompts"));
  EXPECT_THAT(error({{"default_prompt_name", ""}}), HasSubstr("default_prompt_name is \"\"; it"));
  EXPECT_THAT(error({{"prompts", {{"x", 1}}}}), HasSubstr("prompts is {\"x\":1}; an object of"));
  // Prompts that are not pooled matter only where there are prompts.
  folder_.WriteJson(kPooling, {{"include_prompt", false}});
  EXPECT_EQ(ReadWith(kModel, {{"prompts", {{"query", ""}}}}).pooling, Pooling::kMean);
  EXPECT_THAT(error({{"prompts", {{"query", "q: "}}}}), HasSubstr("include_prompt of the pooling"));
}

}  // namespace
}  // namespace beamline::encoding_defaults_test
