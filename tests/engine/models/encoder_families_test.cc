// ALBERT, ELECTRA, MPNet, ModernBERT and DeBERTa, and decoders whose hidden states are embeddings.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "engine/models/models.h"
#include "tests/engine/checkpoint/checkpoint_folder.h"

namespace beamline::encoder_families_test {
namespace {

using nlohmann::json;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Of a folder with this config.json and tensors; with `modules` it is sentence-transformers', and
// pools the last token.
absl::StatusOr<ModelDescription> Describe(const json& config, bool modules = false,
                                          const std::vector<NamedShape>& tensors = {}) {
  TemporaryFolder folder;
  folder.WriteJson("config.json", config);
  folder.Write("model.safetensors", SafetensorsOf(tensors));
  if (modules) {
    const std::string package = "sentence_transformers.models.";
    folder.WriteJson("modules.json", {{{"type", package + "Transformer"}, {"path", ""}},
                                      {{"type", package + "Pooling"}, {"path", "1_Pooling"}},
                                      {{"type", package + "Normalize"}, {"path", "2_Normalize"}}});
    folder.WriteJson("1_Pooling/config.json", {{"pooling_mode_lasttoken", true}});
  }
  auto checkpoint = Checkpoint::Open(folder.path());
  if (!checkpoint.ok()) return checkpoint.status();
  return DescribeModel(**checkpoint);
}

json Config(const std::string& model_type, const json& fields = json::object()) {
  json config = {{"model_type", model_type}};
  config.update(fields);
  return config;
}

TransformerSpec Spec(const json& config, bool modules = false,
                     const std::vector<NamedShape>& tensors = {}) {
  const auto model = Describe(config, modules, tensors);
  EXPECT_TRUE(model.ok()) << model.status();
  return model.ok() ? model->spec : TransformerSpec{.encoder = StackSpec()};
}

std::string Error(const json& config, bool modules = false) {
  return std::string(Describe(config, modules).status().message());
}

TEST(EmbedderTest, ModulesMakeAnEmbedderOfADecoder) {
  for (const char* architecture : {"Qwen3ForCausalLM", "Qwen3Model"}) {
    const auto model = Describe(Config("qwen3", {{"architectures", {architecture}}}), true);
    ASSERT_TRUE(model.ok()) << model.status();
    const TransformerSpec& spec = model->spec;
    EXPECT_FALSE(spec.decoder.has_value());
    ASSERT_TRUE(spec.encoder.has_value());
    EXPECT_TRUE(spec.encoder->causal && spec.encoder->edits_heads());
    EXPECT_EQ(spec.head, "");
    EXPECT_THAT(spec.ignored_tensors, Contains("lm_head.weight"));
    EXPECT_EQ(model->encoding.pooling, Pooling::kLast);
    EXPECT_TRUE(model->encoding.normalize);
  }
}

TEST(EmbedderTest, ClassesSayWhatAFolderWithoutModulesIs) {
  const TransformerSpec headless = Spec(Config("mistral", {{"architectures", {"MistralModel"}}}));
  EXPECT_TRUE(headless.encoder.has_value() && !headless.decoder.has_value());
  for (const json& config :
       {Config("llama", {{"architectures", {"LlamaForCausalLM"}}}), Config("qwen2")}) {
    EXPECT_TRUE(Spec(config).decoder.has_value());
  }
}

TEST(EmbedderTest, RefusesOtherDecoders) {
  EXPECT_THAT(Error(Config("gemma"), true),
              HasSubstr("modules.json: sentence-transformers' folders of model_type gemma are not "
                        "served; of decoders those of llama, mistral, qwen2, qwen3 are"));
  EXPECT_THAT(Error(Config("gpt2"), true), HasSubstr("folders of model_type gpt2"));
  EXPECT_THAT(Error(Config("llama", {{"architectures", {"LlamaForQuestionAnswering"}}})),
              HasSubstr("served are LlamaForCausalLM, LlamaForSequenceClassification, "
                        "LlamaForTokenClassification, LlamaModel"));
  EXPECT_THAT(Error(Config("qwen2", {{"is_causal", false}}), true),
              HasSubstr("is_causal is false; only true is supported"));
}

// transformers 5 hides later tokens from the encoders whose masks it makes itself.
TEST(EncoderFamiliesTest, CausalEncodersAreRefused) {
  for (const char* family : {"bert", "roberta", "xlm-roberta", "electra", "distilbert", "albert",
                             "modernbert", "nomic_bert"}) {
    EXPECT_THAT(Error(Config(family, {{"is_causal", true}})),
                HasSubstr("config.json: is_causal is true; only false is supported"));
    for (const json& off : {json(false), json(nullptr)}) {
      EXPECT_EQ(Error(Config(family, {{"is_causal", off}})), "") << family;
    }
  }
  for (const char* family : {"mpnet", "deberta", "deberta-v2"}) {
    EXPECT_EQ(Error(Config(family, {{"is_causal", true}})), "") << family;
  }
}

TEST(EmbedderTest, EmbeddersHaveAnglesOfLongSequencesToo) {
  const std::vector<double> factors(2, 1.0);
  const json rope = {{"rope_type", "longrope"},
                     {"long_factor", factors},
                     {"short_factor", factors},
                     {"original_max_position_embeddings", 32}};
  const json config = Config("llama", {{"hidden_size", 8},
                                       {"num_attention_heads", 2},
                                       {"max_position_embeddings", 64},
                                       {"rope_parameters", rope}});
  EXPECT_EQ(Spec(config, true).encoder->rotary.original_positions, 32);
}

TEST(ElectraTest, ProjectsSmallerEmbeddings) {
  const StackSpec small =
      *Spec(Config("electra",
                   {{"hidden_size", 256}, {"num_attention_heads", 4}, {"embedding_size", 128}}))
           .encoder;
  EXPECT_EQ(small.projected_size, 128);
  EXPECT_EQ(small.embedding_size(), 128);
  EXPECT_THAT(small.projection.weights, ElementsAre("embeddings_project.weight"));
  const StackSpec base = *Spec(Config("electra", {{"embedding_size", 768}})).encoder;
  EXPECT_EQ(base.projected_size, 0);
  EXPECT_EQ(base.embedding_size(), 768);
}

TEST(AlbertTest, LayersOfAGroupAreOne) {
  const StackSpec base = *Spec(Config("albert")).encoder;
  EXPECT_EQ(base.num_layers, 12);
  EXPECT_EQ(base.layer_ids, std::vector<std::string>(12, "0.albert_layers.0"));
  EXPECT_EQ(base.projected_size, 128);
  const StackSpec groups =
      *Spec(Config("albert",
                   {{"num_hidden_layers", 3}, {"num_hidden_groups", 2}, {"inner_group_num", 2}}))
           .encoder;
  EXPECT_THAT(groups.layer_ids,
              ElementsAre("0.albert_layers.0", "0.albert_layers.1", "0.albert_layers.0",
                          "0.albert_layers.1", "1.albert_layers.0", "1.albert_layers.1"));
  EXPECT_EQ(groups.num_layers, 6);
}

TEST(AlbertTest, NamesFieldsThatItDoesNotKnow) {
  EXPECT_THAT(Error(Config("albert", {{"num_hidden_groups", 13}})),
              HasSubstr("num_hidden_groups is 13; at most num_hidden_layers, 12, is expected"));
  EXPECT_THAT(Error(Config("albert", {{"inner_group_num", 0}})),
              HasSubstr("inner_group_num is 0; a whole number from 1 to 64"));
  EXPECT_THAT(Error(Config("albert", {{"position_embedding_type", "relative_key"}})),
              HasSubstr("only \"absolute\" is supported"));
  EXPECT_THAT(Error(Config("albert", {{"num_attention_heads", 7}})),
              HasSubstr("num_attention_heads is 7; hidden_size must be a multiple of it"));
}

TEST(MpNetTest, HasPositionsBehindPaddingAndBiases) {
  const StackSpec encoder = *Spec(Config("mpnet", {{"max_position_embeddings", 514}})).encoder;
  EXPECT_EQ(encoder.max_positions, 512);
  EXPECT_EQ(encoder.position_offset, 2);
  EXPECT_EQ(encoder.padding_id, 1);
  EXPECT_EQ(encoder.relative.table, "encoder.relative_attention_bias.weight");
  EXPECT_THAT(Error(Config("mpnet", {{"relative_attention_num_buckets", 16}})),
              HasSubstr("relative_attention_num_buckets is 16; supported is 32"));
  EXPECT_THAT(Error(Config("mpnet", {{"max_position_embeddings", 2}})),
              HasSubstr("max_position_embeddings is 2; more than 2 are expected"));
}

TEST(ModernBertTest, WindowsAndAnglesAreByLayer) {
  const json sizes = {{"num_hidden_layers", 4}, {"local_attention", 10}};
  StackSpec encoder = *Spec(Config("modernbert", sizes)).encoder;
  EXPECT_THAT(encoder.attention_windows, ElementsAre(0, 6, 6, 0));
  EXPECT_THAT(encoder.layer_rotary, ElementsAre(LayerRotary::kMain, LayerRotary::kLocal,
                                                LayerRotary::kLocal, LayerRotary::kMain));
  EXPECT_FALSE(encoder.causal || encoder.first_is_normed);
  EXPECT_EQ(encoder.layers.attention_norm.bias, "");
  EXPECT_THAT(encoder.layers.qkv.biases, IsEmpty());
  EXPECT_LT(encoder.rotary.frequencies.back(), encoder.local_rotary.frequencies.back());

  json config = Config("modernbert", sizes);
  config["global_attn_every_n_layers"] = 2;
  EXPECT_THAT(Spec(config).encoder->attention_windows, ElementsAre(0, 6, 0, 6));
  config["layer_types"] = {"sliding_attention", "full_attention", "full_attention",
                           "sliding_attention"};
  EXPECT_THAT(Spec(config).encoder->attention_windows, ElementsAre(6, 0, 0, 6));
  config["max_position_embeddings"] = 6;  // which a window of 6 holds
  EXPECT_THAT(Spec(config).encoder->attention_windows, IsEmpty());
  // Older files' angles.
  config["local_rope_theta"] = 160000;
  encoder = *Spec(config).encoder;
  EXPECT_EQ(encoder.rotary.frequencies, encoder.local_rotary.frequencies);
}

TEST(ModernBertTest, ReadsItsHead) {
  const json config =
      Config("modernbert", {{"architectures", {"ModernBertForSequenceClassification"}},
                            {"hidden_size", 8},
                            {"num_attention_heads", 2},
                            {"classifier_pooling", "mean"}});
  const std::vector<NamedShape> tensors = {{"classifier.weight", {2, 8}}};
  const ClassifierSpec head = *Spec(config, false, tensors).classifier;
  EXPECT_EQ(head.pooling, Pooling::kMean);
  EXPECT_EQ(head.norm.gain, "head.norm.weight");
  EXPECT_THAT(head.dense.biases, IsEmpty());
  json other = config;
  other["classifier_pooling"] = "max";
  EXPECT_THAT(std::string(Describe(other, false, tensors).status().message()),
              HasSubstr("classifier_pooling is \"max\"; supported are cls and mean"));
}

TEST(ModernBertTest, NamesFieldsThatItDoesNotKnow) {
  EXPECT_THAT(Error(Config("modernbert", {{"layer_types", {"full_attention"}}})),
              HasSubstr("layer_types is [\"full_attention\"]; 22 of"));
  EXPECT_THAT(Error(Config("modernbert", {{"rope_scaling", {{"type", "linear"}}}})),
              HasSubstr("rope_scaling is {\"type\":\"linear\"}; none is expected"));
  EXPECT_THAT(Error(Config("modernbert", {{"hidden_activation", "quick_gelu"}})),
              HasSubstr("hidden_activation is \"quick_gelu\""));
  // The keys on one side, whatever local_attention says.
  for (const json& local : {json(6), json(nullptr)}) {
    const StackSpec windowed =
        *Spec(Config("modernbert", {{"local_attention", local}, {"sliding_window", 5}})).encoder;
    EXPECT_EQ(windowed.attention_windows[1], 6);
  }
  EXPECT_THAT(Error(Config("modernbert", {{"sliding_window", nullptr}})),
              HasSubstr("sliding_window is null; a number is expected"));
  EXPECT_THAT(Error(Config("modernbert", {{"local_attention", 0}})),
              HasSubstr("local_attention is 0; a whole number from 1"));
  EXPECT_THAT(Error(Config("modernbert", {{"architectures", {"ModernBertForQuestionAnswering"}}})),
              HasSubstr("served are ModernBertModel, ModernBertForMaskedLM"));
}

TEST(DebertaTest, ReadsDistances) {
  const json sizes = {{"hidden_size", 16}, {"num_attention_heads", 2}};
  json config = Config("deberta-v2", sizes);
  StackSpec encoder = *Spec(config).encoder;  // what transformers has where the file is silent
  EXPECT_TRUE(encoder.disentangled.empty());
  EXPECT_EQ(encoder.positions, PositionKind::kLearned);
  EXPECT_FLOAT_EQ(encoder.attention_scale, 1.0f / std::sqrt(8.0f));
  config.update({{"relative_attention", true},
                 {"pos_att_type", "P2C | c2p"},
                 {"position_buckets", 256},
                 {"share_att_key", true},
                 {"norm_rel_ebd", "layer_norm"},
                 {"position_biased_input", false}});
  encoder = *Spec(config).encoder;
  EXPECT_EQ(encoder.positions, PositionKind::kRelative);
  EXPECT_EQ(encoder.disentangled.span, 256);
  EXPECT_EQ(encoder.disentangled.max_distance, 512);
  EXPECT_EQ(encoder.disentangled.table_norm.gain, "encoder.LayerNorm.weight");
  EXPECT_FLOAT_EQ(encoder.attention_scale, 1.0f / std::sqrt(24.0f));
  EXPECT_THAT(encoder.layers.position_key.weights,
              ElementsAre("encoder.layer.{}.attention.self.key_proj.weight"));
  config.update({{"share_att_key", false},
                 {"pos_att_type", {"c2p"}},
                 {"max_relative_positions", 300},
                 {"position_buckets", -1}});
  encoder = *Spec(config).encoder;
  EXPECT_EQ(encoder.disentangled.num_rows(), 600);
  EXPECT_THAT(encoder.layers.position_key.weights,
              ElementsAre("encoder.layer.{}.attention.self.pos_key_proj.weight"));
  EXPECT_THAT(encoder.layers.position_query.weights, IsEmpty());
  // Without distances the number of scores still counts.
  config["relative_attention"] = false;
  encoder = *Spec(config).encoder;
  EXPECT_TRUE(encoder.disentangled.empty() && encoder.layers.position_key.weights.empty());
  EXPECT_EQ(encoder.positions, PositionKind::kNone);
  EXPECT_FLOAT_EQ(encoder.attention_scale, 1.0f / 4.0f);
}

TEST(DebertaTest, ReadsTheFirstVersion) {
  const json config = Config("deberta", {{"hidden_size", 16},
                                         {"num_attention_heads", 2},
                                         {"relative_attention", true},
                                         {"pos_att_type", {"c2p", "p2c"}},
                                         {"position_buckets", 8}});
  const StackSpec encoder = *Spec(config).encoder;
  EXPECT_FALSE(encoder.disentangled.has_buckets);
  EXPECT_EQ(encoder.disentangled.span, 512);
  EXPECT_TRUE(encoder.layers.qkv.grouped);
  EXPECT_THAT(encoder.layers.qkv.biases, ElementsAre("encoder.layer.{}.attention.self.q_bias", "",
                                                     "encoder.layer.{}.attention.self.v_bias"));
  EXPECT_THAT(encoder.layers.position_key.biases, IsEmpty());
  EXPECT_EQ(encoder.vocab_size, 50265);
}

TEST(DebertaTest, NamesFieldsThatItDoesNotKnow) {
  const auto error = [](const json& fields, const char* model_type = "deberta-v2") {
    json config =
        Config(model_type,
               {{"relative_attention", true}, {"pos_att_type", "c2p"}, {"position_buckets", 256}});
    config.update(fields);
    return Error(config);
  };
  EXPECT_EQ(error(json::object()), "");
  EXPECT_THAT(error({{"pos_att_type", "c2p|p2p"}}),
              HasSubstr("pos_att_type is \"c2p|p2p\"; supported are c2p, p2c"));
  EXPECT_THAT(error({{"pos_att_type", {"c2p", 3}}}), HasSubstr("pos_att_type is [\"c2p\",3]"));
  EXPECT_THAT(error({{"pos_att_type", {{"c2p", true}}}}), HasSubstr("pos_att_type is"));
  EXPECT_THAT(error({{"norm_rel_ebd", "batch_norm"}}),
              HasSubstr("norm_rel_ebd is \"batch_norm\"; supported are none, layer_norm"));
  EXPECT_THAT(error({{"position_buckets", 1}}),
              HasSubstr("position_buckets is 1; 2 or more are expected, and "
                        "max_relative_positions (512) above half of them and 1"));
  EXPECT_THAT(error({{"max_relative_positions", 129}}), HasSubstr("position_buckets is 256; 2 or"));
  EXPECT_THAT(error({{"max_relative_positions", 1 << 21}}),
              HasSubstr("max_relative_positions is 2097152; a whole number from -1 to 1048576"));
  EXPECT_THAT(error({{"conv_kernel_size", 4}}),
              HasSubstr("conv_kernel_size is 4; odd ones are supported"));
  EXPECT_THAT(error({{"conv_kernel_size", 65}}), HasSubstr("conv_kernel_size is 65; a whole"));
  EXPECT_THAT(error({{"conv_kernel_size", 3}, {"conv_groups", 2}}),
              HasSubstr("conv_groups is 2; supported is 1"));
  EXPECT_THAT(error({{"conv_kernel_size", 3}, {"conv_act", "mish"}}),
              HasSubstr("conv_act is \"mish\""));
  EXPECT_THAT(error({{"attention_head_size", 32}}),
              HasSubstr("attention_head_size is 32; supported is 64"));
  EXPECT_THAT(error({{"pooler_hidden_size", 8}}),
              HasSubstr("pooler_hidden_size is 8; supported is 1536"));
  EXPECT_THAT(error({{"position_biased_input", false}, {"max_position_embeddings", 20000}}),
              HasSubstr("max_position_embeddings is 20000; a whole number from 1 to 16384"));
  EXPECT_THAT(error({{"type_vocab_size", -1}}), HasSubstr("type_vocab_size is -1"));
  EXPECT_THAT(error({{"talking_head", true}}, "deberta"),
              HasSubstr("talking_head is true; only false is supported"));
  EXPECT_THAT(error({{"pooler_hidden_size", 8}}, "deberta"),
              HasSubstr("pooler_hidden_size is 8; supported is 768"));
  EXPECT_THAT(error({{"architectures", {"DebertaV2ForQuestionAnswering"}}}),
              HasSubstr("served are DebertaV2Model, DebertaV2ForMaskedLM"));
}

TEST(NomicBertTest, ReadsOlderFieldsAndRefusesWhatTheyMayAskFor) {
  const json sizes = {{"n_layer", 3}, {"n_embd", 16}, {"n_head", 2}, {"n_inner", 24}};
  const StackSpec encoder = *Spec(Config("nomic_bert", sizes)).encoder;
  const auto slowest = [](const json& fields) {
    return Spec(Config("nomic_bert", fields)).encoder->rotary.frequencies.back();
  };
  EXPECT_EQ(slowest({{"rotary_emb_base", 300}}), slowest(json::object()));
  EXPECT_EQ(slowest({{"rope_theta", 700}, {"rotary_emb_base", 300}}),
            slowest({{"rope_parameters", {{"rope_type", "default"}, {"rope_theta", 700}}}}));
  EXPECT_NE(slowest({{"rope_theta", 700}}), slowest(json::object()));
  EXPECT_EQ(encoder.num_layers, 3);
  EXPECT_EQ(encoder.head_dim, 8);
  EXPECT_EQ(encoder.feed_forward_size, 24);
  EXPECT_EQ(encoder.max_positions, 2048);
  EXPECT_THAT(
      encoder.layers.feed_forward_in.weights,
      ElementsAre("encoder.layers.{}.mlp.fc12.weight", "encoder.layers.{}.mlp.fc11.weight"));
  for (const char* field : {"prenorm", "use_rms_norm", "qkv_proj_bias", "rotary_emb_interleaved"}) {
    EXPECT_THAT(Error(Config("nomic_bert", {{field, true}})),
                HasSubstr(std::string(field) + " is true; only false is supported"));
  }
  EXPECT_THAT(Error(Config("nomic_bert", {{"activation_function", "gelu"}})),
              HasSubstr("activation_function is \"gelu\"; only \"swiglu\" is supported"));
  EXPECT_THAT(Error(Config("nomic_bert", {{"rotary_emb_fraction", 0.5}})),
              HasSubstr("rotary_emb_fraction is 0.5; only 1 is supported"));
  EXPECT_THAT(Error(Config("nomic_bert", {{"moe_every_n_layers", 2}})),
              HasSubstr("moe_every_n_layers is 2; only 0 is supported"));
}

}  // namespace
}  // namespace beamline::encoder_families_test
