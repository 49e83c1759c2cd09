#include "engine/models/models.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "tests/engine/checkpoint/checkpoint_folder.h"

namespace beamline::models_test {
namespace {

using nlohmann::json;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

absl::StatusOr<ModelDescription> Describe(const std::string& folder) {
  auto checkpoint = Checkpoint::Open(folder);
  if (!checkpoint.ok()) return checkpoint.status();
  return DescribeModel(**checkpoint);
}

json OfType(const std::string& model_type) { return {{"model_type", model_type}}; }

// A folder with this config.json and tensors of these names.
class Folder {
 public:
  explicit Folder(const json& config, const std::vector<std::string>& tensors = {}) {
    folder_.WriteJson("config.json", config);
    std::vector<NamedShape> shapes;
    for (const std::string& name : tensors) shapes.push_back({name, {1}});
    folder_.Write("model.safetensors", SafetensorsOf(shapes));
  }
  Folder& With(const std::string& file, const json& value) {
    folder_.WriteJson(file, value);
    return *this;
  }
  absl::StatusOr<ModelDescription> Describe() const {
    return models_test::Describe(folder_.path());
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

std::string DemoFolder(const std::string& name) {
  return std::string(BEAMLINE_SOURCE_DIR) + "/models/" + name;
}

TEST(DescribeModelTest, DescribesTheEmbedDemo) {
  const auto model = Describe(DemoFolder("embed-en"));
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->spec.architecture, "BertModel");
  EXPECT_EQ(model->spec.vocab_size, 7168);
  EXPECT_FALSE(model->spec.decoder.has_value());
  const StackSpec& encoder = model->spec.encoder.value();
  EXPECT_EQ(encoder.num_layers, 4);
  EXPECT_EQ(encoder.num_heads, 4);
  EXPECT_EQ(encoder.head_dim, 64);
  EXPECT_EQ(encoder.attention_scale, 0.125f);
  EXPECT_EQ(encoder.placement, NormPlacement::kPost);
  EXPECT_EQ(encoder.activation, Activation::kGelu);
  EXPECT_EQ(model->encoding.pooling, Pooling::kMean);
  EXPECT_TRUE(model->encoding.normalize);
  EXPECT_EQ(model->encoding.max_input_tokens, 256);
}

TEST(DescribeModelTest, DescribesTheTranslateDemo) {
  const auto model = Describe(DemoFolder("translate-en-de"));
  ASSERT_TRUE(model.ok()) << model.status();
  const StackSpec& decoder = model->spec.decoder.value();
  EXPECT_EQ(model->spec.encoder->num_layers, 4);
  EXPECT_EQ(decoder.num_layers, 3);
  EXPECT_TRUE(decoder.cross_attention);
  EXPECT_TRUE(decoder.causal);
  EXPECT_EQ(decoder.token_scale, 16.0f);
  EXPECT_EQ(decoder.positions, PositionKind::kSinusoidal);
  EXPECT_EQ(decoder.activation, Activation::kSilu);
  EXPECT_EQ(model->spec.head, "model.shared.weight");
  EXPECT_EQ(model->spec.head_bias, "final_logits_bias");
  EXPECT_EQ(model->generation.decoder_start_token_id, 7999);
  EXPECT_THAT(model->generation.eos_token_ids, ElementsAre(0));
  EXPECT_EQ(model->generation.pad_token_id, 7999);
  EXPECT_EQ(model->generation.forced_eos_token_id, 0);
  EXPECT_THAT(model->generation.bad_words_ids, ElementsAre(ElementsAre(7999)));
  EXPECT_EQ(model->generation.num_beams, 4);
  EXPECT_EQ(model->generation.max_length, 512);
  EXPECT_FALSE(model->generation.renormalize_logits);
}

TEST(DescribeModelTest, DescribesTheWriteDemo) {
  const auto model = Describe(DemoFolder("write-en"));
  ASSERT_TRUE(model.ok()) << model.status();
  const StackSpec& decoder = model->spec.decoder.value();
  EXPECT_EQ(decoder.num_layers, 5);
  EXPECT_EQ(decoder.feed_forward_size, 4 * 192);
  EXPECT_EQ(decoder.placement, NormPlacement::kPre);
  EXPECT_EQ(decoder.activation, Activation::kGeluTanh);
  EXPECT_TRUE(decoder.layers.qkv.transposed);
  EXPECT_EQ(decoder.token_table, "transformer.wte.weight");
  EXPECT_EQ(model->spec.head, "transformer.wte.weight");
  EXPECT_THAT(model->generation.eos_token_ids, ElementsAre(5999));
}

TEST(DescribeModelTest, FindsNamesWithAndWithoutPrefix) {
  const json bert = {{"model_type", "bert"}};
  EXPECT_EQ(Folder(bert).Described().spec.encoder->token_table,
            "embeddings.word_embeddings.weight");
  EXPECT_EQ(Folder(bert, {"bert.embeddings.word_embeddings.weight"})
                .Described()
                .spec.encoder->token_table,
            "bert.embeddings.word_embeddings.weight");
  EXPECT_EQ(Folder(OfType("gpt2")).Described().spec.decoder->final_norm.gain, "ln_f.weight");
}

TEST(DescribeModelTest, KnowsTheNormNamesOfTensorflow) {
  const Folder folder(OfType("bert"), {"embeddings.LayerNorm.gamma"});
  EXPECT_EQ(folder.Described().spec.encoder->embedding_norm.bias, "embeddings.LayerNorm.beta");
  EXPECT_EQ(folder.Described().spec.encoder->layers.feed_forward_norm.gain,
            "encoder.layer.{}.output.LayerNorm.gamma");
}

TEST(DescribeModelTest, RobertaReservesPositionsForPadding) {
  const json config = {
      {"model_type", "xlm-roberta"}, {"max_position_embeddings", 514}, {"pad_token_id", 1}};
  const StackSpec encoder = Folder(config).Described().spec.encoder.value();
  EXPECT_EQ(encoder.position_offset, 2);
  EXPECT_EQ(encoder.padding_id, 1);
  EXPECT_EQ(encoder.max_positions, 512);
}

TEST(DescribeModelTest, ReadsGpt2AttentionScales) {
  json config = {{"model_type", "gpt2"},
                 {"n_embd", 12},
                 {"n_head", 3},
                 {"scale_attn_by_inverse_layer_idx", true}};
  EXPECT_TRUE(Folder(config).Described().spec.decoder->scale_by_inverse_layer);
  EXPECT_EQ(Folder(config).Described().spec.decoder->attention_scale, 0.5f);
  config["scale_attn_weights"] = false;
  EXPECT_EQ(Folder(config).Described().spec.decoder->attention_scale, 1.0f);
}

// transformers' classes take these names for their own.
TEST(DescribeModelTest, TakesTheOtherNamesOfSizes) {
  json config = {{"model_type", "gpt2"},   {"hidden_size", 24},
                 {"num_hidden_layers", 5}, {"num_attention_heads", 3},
                 {"n_positions", nullptr}, {"max_position_embeddings", 77}};
  const StackSpec gpt2 = Folder(config).Described().spec.decoder.value();
  EXPECT_EQ(gpt2.hidden_size, 24);
  EXPECT_EQ(gpt2.num_layers, 5);
  EXPECT_EQ(gpt2.num_heads, 3);
  EXPECT_EQ(gpt2.max_positions, 77);
  config["n_head"] = 4;
  EXPECT_THAT(std::string(Folder(config).Describe().status().message()),
              HasSubstr("num_attention_heads is 3; it is n_head's other name, which is 4"));
  config = {{"model_type", "gpt2"}, {"hidden_size", "x"}};
  EXPECT_THAT(std::string(Folder(config).Describe().status().message()),
              HasSubstr("config.json: hidden_size is \"x\"; a whole number"));

  config = {{"model_type", "marian"},
            {"hidden_size", 64},
            {"num_hidden_layers", 3},
            {"num_attention_heads", 8}};
  const ModelDescription marian = Folder(config, {"final_logits_bias"}).Described();
  EXPECT_EQ(marian.spec.encoder->hidden_size, 64);
  EXPECT_EQ(marian.spec.decoder->hidden_size, 64);
  EXPECT_EQ(marian.spec.encoder->num_layers, 3);
  EXPECT_EQ(marian.spec.decoder->num_layers, 12);  // its own field alone says
  EXPECT_EQ(marian.spec.encoder->num_heads, 8);
  EXPECT_EQ(marian.spec.decoder->num_heads, 16);
}

TEST(DescribeModelTest, FindsMarianEmbeddings) {
  json config = {{"model_type", "marian"}, {"d_model", 64}};
  ModelDescription model =
      Folder(config, {"final_logits_bias", "model.decoder.embed_tokens.weight"}).Described();
  EXPECT_EQ(model.spec.encoder->token_table, "model.decoder.embed_tokens.weight");
  EXPECT_EQ(model.spec.encoder->token_scale, 1.0f);
  EXPECT_THAT(model.spec.ignored_tensors, Contains("lm_head.weight"));

  config["share_encoder_decoder_embeddings"] = false;
  config["tie_word_embeddings"] = false;
  config["decoder_vocab_size"] = 70000;
  model = Folder(config, {"final_logits_bias"}).Described();
  EXPECT_EQ(model.spec.encoder->token_table, "model.encoder.embed_tokens.weight");
  EXPECT_EQ(model.spec.decoder->token_table, "model.decoder.embed_tokens.weight");
  EXPECT_EQ(model.spec.head, "lm_head.weight");
  EXPECT_EQ(model.spec.encoder->vocab_size, 58101);
  EXPECT_EQ(model.spec.vocab_size, 70000);
}

TEST(DescribeModelTest, ListsTheFamiliesForAnUnknownOne) {
  const auto model = Folder(OfType("mamba")).Describe();
  EXPECT_EQ(model.status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(model.status().message()),
              HasSubstr("config.json: model_type is \"mamba\"; served are bert, "));
}

TEST(DescribeModelTest, RefusesTheHeadsOfOtherTasks) {
  for (const char* tensor : {"classifier.weight", "classifier.out_proj.bias", "qa_outputs.bias"}) {
    const auto model = Folder(OfType("roberta"), {tensor}).Describe();
    EXPECT_EQ(model.status().code(), absl::StatusCode::kUnimplemented);
    EXPECT_THAT(std::string(model.status().message()),
                HasSubstr(std::string("/model.safetensors: tensor \"") + tensor));
  }
}

TEST(DescribeModelTest, ChecksTheFamilyWithoutWeights) {
  EXPECT_TRUE(CheckFamily(OfType("xlm-roberta")).ok());
  EXPECT_EQ(CheckFamily(OfType("mamba")).code(), absl::StatusCode::kUnimplemented);
}

struct ConfigFault {
  json config;
  std::string message;
};

TEST(DescribeModelTest, NamesFieldsThatItDoesNotKnow) {
  const ConfigFault faults[] = {
      {{{"model_type", "bert"}, {"hidden_act", "quick_gelu"}},
       "config.json: hidden_act is \"quick_gelu\"; supported are gelu, "},
      {{{"model_type", "bert"}, {"position_embedding_type", "relative_key"}},
       "position_embedding_type is \"relative_key\"; only \"absolute\" is supported"},
      {{{"model_type", "bert"}, {"is_decoder", true}}, "is_decoder is true; only false"},
      {{{"model_type", "bert"}, {"num_attention_heads", 7}},
       "num_attention_heads is 7; hidden_size must be a multiple of it"},
      {{{"model_type", "bert"}, {"hidden_size", "768"}},
       "hidden_size is \"768\"; a whole number from 1 to"},
      {{{"model_type", "bert"}, {"hidden_size", 0}}, "hidden_size is 0; a whole number from 1"},
      {{{"model_type", "bert"}, {"layer_norm_eps", "x"}}, "layer_norm_eps is \"x\"; a finite"},
      {{{"model_type", "roberta"}, {"max_position_embeddings", 2}},
       "it must exceed pad_token_id + 1"},
      {{{"model_type", "gpt2"}, {"add_cross_attention", true}}, "add_cross_attention is true"},
      {{{"model_type", "gpt2"}, {"n_layer", 4294967296}}, "n_layer is 4294967296"},
      {{{"model_type", "marian"}, {"normalize_before", true}}, "normalize_before is true"},
      {{{"model_type", "marian"}, {"static_position_embeddings", false}},
       "static_position_embeddings is false"},
      {{{"model_type", "marian"}, {"activation_function", 3}},
       "activation_function is 3; a string is expected"},
      {{{"model_type", 3}}, "model_type is 3; a string is expected"},
      {json::object(), "config.json: model_type is missing; served are bert, "},
      {{{"model_type", "roberta"}, {"architectures", {"RobertaForQuestionAnswering"}}},
       "architectures is [\"RobertaForQuestionAnswering\"]; served are RobertaModel, "},
      {{{"model_type", "bert"}, {"architectures", {"RobertaModel"}}}, "served are BertModel, "},
      {{{"model_type", "bert"}, {"num_hidden_layers", -1}},
       "num_hidden_layers is -1; a whole number from 0 to 1048576 is expected"},
      {{{"model_type", "gpt2"}, {"n_layer", 0}},
       "n_layer is 0; a whole number from 1 to 1048576 is expected"},
  };
  for (const ConfigFault& fault : faults) {
    EXPECT_THAT(Folder(fault.config).Error(), HasSubstr(fault.message)) << fault.config;
  }
}

class GenerationDefaultsTest : public ::testing::Test {
 protected:
  static std::string Error(const json& generation) {
    return Folder(OfType("gpt2")).With("generation_config.json", generation).Error();
  }
  static GenerationDefaults Read(const json& config, const json& generation) {
    Folder folder(config);
    if (!generation.is_null()) folder.With("generation_config.json", generation);
    return folder.Described().generation;
  }
};

TEST_F(GenerationDefaultsTest, ComeFromTheGenerationConfigAlone) {
  const GenerationDefaults defaults =
      Read({{"model_type", "gpt2"}, {"eos_token_id", 5}}, {{"eos_token_id", {7, 8}},
                                                           {"do_sample", false},
                                                           {"temperature", 0.5},
                                                           {"top_k", 40},
                                                           {"top_p", 0.25},
                                                           {"early_stopping", "never"},
                                                           {"length_penalty", 2.0},
                                                           {"repetition_penalty", 1.25},
                                                           {"no_repeat_ngram_size", 3},
                                                           {"max_new_tokens", 20},
                                                           {"min_length", 4},
                                                           {"stop_strings", "ab"},
                                                           {"num_return_sequences", 2},
                                                           {"renormalize_logits", true},
                                                           {"suppress_tokens", {1, 2}},
                                                           {"forced_bos_token_id", 9},
                                                           {"bad_words_ids", {{1}, {2, 3}}},
                                                           {"num_beams", 5}});
  EXPECT_THAT(defaults.eos_token_ids, ElementsAre(7, 8));
  EXPECT_FALSE(defaults.do_sample);
  EXPECT_EQ(defaults.temperature, 0.5f);
  EXPECT_EQ(defaults.top_k, 40);
  EXPECT_EQ(defaults.top_p, 0.25f);
  EXPECT_EQ(defaults.early_stopping, EarlyStopping::kExhaustive);
  EXPECT_EQ(defaults.length_penalty, 2.0f);
  EXPECT_EQ(defaults.repetition_penalty, 1.25f);
  EXPECT_EQ(defaults.no_repeat_ngram_size, 3);
  EXPECT_EQ(defaults.max_new_tokens, 20);
  EXPECT_EQ(defaults.max_length, std::nullopt);
  EXPECT_EQ(defaults.min_length, 4);
  EXPECT_THAT(defaults.stop_strings, ElementsAre("ab"));
  EXPECT_EQ(defaults.num_return_sequences, 2);
  EXPECT_TRUE(defaults.renormalize_logits);
  EXPECT_THAT(defaults.suppress_tokens, ElementsAre(1, 2));
  EXPECT_EQ(defaults.forced_bos_token_id, 9);
  EXPECT_EQ(defaults.num_beams, 5);
  EXPECT_THAT(defaults.bad_words_ids, ElementsAre(ElementsAre(1), ElementsAre(2, 3)));
}

TEST_F(GenerationDefaultsTest, FallBackToTheConfigAndTheFamily) {
  EXPECT_THAT(Read({{"model_type", "gpt2"}, {"eos_token_id", 5}}, nullptr).eos_token_ids,
              ElementsAre(5));
  EXPECT_EQ(Read({{"model_type", "gpt2"}}, nullptr).bos_token_id, 50256);
  EXPECT_TRUE(Read({{"model_type", "gpt2"}}, nullptr).eos_token_ids.empty());
  const GenerationDefaults marian = Read({{"model_type", "marian"}}, nullptr);
  EXPECT_EQ(marian.decoder_start_token_id, 58100);
  EXPECT_TRUE(marian.eos_token_ids.empty());
  EXPECT_EQ(marian.forced_eos_token_id, std::nullopt);
  const GenerationDefaults other = Read({{"model_type", "marian"}}, {{"bos_token_id", 3}});
  EXPECT_EQ(other.decoder_start_token_id, 3);
  EXPECT_EQ(other.forced_eos_token_id, std::nullopt);
}

TEST_F(GenerationDefaultsTest, NameTheirFaults) {
  EXPECT_THAT(Error({{"early_stopping", "maybe"}}),
              HasSubstr("generation_config.json: early_stopping is \"maybe\"; true, false or"));
  EXPECT_THAT(Error({{"eos_token_id", {1, 50257}}}),
              HasSubstr("eos_token_id is [1,50257]; ids from 0 to 50256 are expected"));
  EXPECT_THAT(Error({{"pad_token_id", 50257}}), HasSubstr("pad_token_id is 50257; a whole number"));
  EXPECT_THAT(Error({{"bos_token_id", 50257}}), HasSubstr("bos_token_id is 50257; a whole number"));
  EXPECT_EQ(Error({{"bos_token_id", -1}, {"pad_token_id", -1}}), "");
  EXPECT_THAT(Error({{"num_beams", 65}}),
              HasSubstr("num_beams is 65; a whole number from 1 to 64"));
  EXPECT_THAT(Error({{"bad_words_ids", {{50257}}}}), HasSubstr("bad_words_ids is [[50257]]"));
  EXPECT_THAT(Error({{"bad_words_ids", {json::array()}}}), HasSubstr("bad_words_ids is [[]]"));
  EXPECT_THAT(Error({{"suppress_tokens", {60000}}}), HasSubstr("suppress_tokens is [60000]"));
  EXPECT_THAT(Error({{"eos_token_id", "x"}}), HasSubstr("eos_token_id is \"x\"; a token id"));
  EXPECT_THAT(Error({{"num_beam_groups", 2}}), HasSubstr("num_beam_groups is 2; only 1 is"));
  EXPECT_THAT(Error({{"sequence_bias", {{"1", 2}}}}), HasSubstr("sequence_bias"));
  EXPECT_EQ(Error({{"num_beam_groups", 1}, {"sequence_bias", nullptr}}), "");
  EXPECT_THAT(Folder(OfType("marian")).With("generation_config.json", {{"num_beams", 4}}).Error(),
              HasSubstr("decoder_start_token_id is missing"));
}

}  // namespace
}  // namespace beamline::models_test
