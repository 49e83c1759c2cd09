// What config.json says of Llama and what is built like it. Numbers are transformers' 5.23.
#include "engine/models/llama_like.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "engine/models/models.h"
#include "engine/transformer/rotary_table.h"
#include "tests/engine/checkpoint/checkpoint_folder.h"

namespace beamline::llama_like_test {
namespace {

using nlohmann::json;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

absl::StatusOr<ModelDescription> Describe(const json& config,
                                          const std::vector<NamedShape>& tensors = {}) {
  const TemporaryFolder folder;
  folder.WriteJson("config.json", config);
  folder.Write("model.safetensors", SafetensorsOf(tensors));
  auto checkpoint = Checkpoint::Open(folder.path());
  if (!checkpoint.ok()) return checkpoint.status();
  return DescribeModel(**checkpoint);
}

// Of a family's config.json with these fields changed.
json Config(const std::string& model_type, const json& fields = json::object()) {
  json config = {{"model_type", model_type}};
  config.update(fields);
  return config;
}

StackSpec Decoder(const std::string& model_type, const json& fields = json::object()) {
  const auto description = Describe(Config(model_type, fields));
  EXPECT_TRUE(description.ok()) << description.status();
  return description.ok() ? description->spec.decoder.value() : StackSpec();
}

std::string Error(const std::string& model_type, const json& fields) {
  return std::string(Describe(Config(model_type, fields)).status().message());
}

TEST(LlamaLikeTest, SilenceMeansWhatTheFamilysClassSays) {
  const StackSpec llama = Decoder("llama");
  EXPECT_EQ(llama.num_kv_heads, 32);
  EXPECT_EQ(llama.head_dim, 128);
  EXPECT_EQ(llama.feed_forward_size, 11008);
  EXPECT_EQ(llama.max_positions, 2048);
  EXPECT_EQ(llama.norm, NormKind::kRmsNorm);
  EXPECT_EQ(llama.norm_epsilon, 1e-6f);
  EXPECT_TRUE(llama.gated && llama.causal);
  EXPECT_EQ(llama.activation, Activation::kSilu);
  EXPECT_THAT(llama.layers.qkv.biases, IsEmpty());
  EXPECT_EQ(Decoder("mistral").num_kv_heads, 8);
  EXPECT_EQ(Decoder("mistral", {{"num_key_value_heads", nullptr}}).num_kv_heads, 32);
  EXPECT_EQ(Decoder("qwen2", {{"num_key_value_heads", nullptr}, {"num_attention_heads", 64}})
                .num_kv_heads,
            64);
  EXPECT_EQ(Decoder("qwen2").vocab_size, 151936);
  EXPECT_EQ(Decoder("qwen3", {{"hidden_size", 1024}}).head_dim, 128);
}

TEST(LlamaLikeTest, BiasesAndNormsAreTheFamilys) {
  const LayerNames llama = Decoder("llama", {{"attention_bias", true}, {"mlp_bias", true}}).layers;
  EXPECT_THAT(llama.qkv.biases, Contains("model.layers.{}.self_attn.v_proj.bias"));
  EXPECT_THAT(llama.attention_output.biases, ElementsAre("model.layers.{}.self_attn.o_proj.bias"));
  EXPECT_EQ(llama.feed_forward_in.biases.size(), 2u);
  EXPECT_EQ(llama.feed_forward_out.biases.size(), 1u);
  EXPECT_EQ(llama.query_norm.gain, "");
  const LayerNames qwen2 = Decoder("qwen2").layers;
  EXPECT_EQ(qwen2.qkv.biases.size(), 3u);
  EXPECT_THAT(qwen2.attention_output.biases, IsEmpty());
  const LayerNames qwen3 = Decoder("qwen3", {{"attention_bias", true}}).layers;
  EXPECT_EQ(qwen3.key_norm.gain, "model.layers.{}.self_attn.k_norm.weight");
  EXPECT_EQ(qwen3.attention_output.biases.size(), 1u);
}

TEST(LlamaLikeTest, TiedEmbeddingsAreTheHead) {
  const auto tied = Describe(Config("qwen2", {{"tie_word_embeddings", true}}));
  ASSERT_TRUE(tied.ok()) << tied.status();
  EXPECT_EQ(tied->spec.head, "model.embed_tokens.weight");
  EXPECT_THAT(tied->spec.ignored_tensors, Contains("lm_head.weight"));
  const auto untied = Describe(Config("llama"));
  ASSERT_TRUE(untied.ok()) << untied.status();
  EXPECT_EQ(untied->spec.head, "lm_head.weight");
  EXPECT_EQ(Describe(Config("llama", {{"vocab_size", 5}}), {{"embed_tokens.weight", {5, 2}}})
                ->spec.decoder->token_table,
            "embed_tokens.weight");
}

TEST(LlamaLikeTest, WindowsAreTheLayers) {
  EXPECT_EQ(Decoder("mistral").attention_windows, std::vector<int32_t>(32, 4096));
  EXPECT_THAT(Decoder("mistral", {{"sliding_window", nullptr}}).attention_windows, IsEmpty());
  // No sequence is longer than the window.
  EXPECT_THAT(Decoder("mistral", {{"max_position_embeddings", 4096}}).attention_windows, IsEmpty());
  EXPECT_THAT(Decoder("llama", {{"sliding_window", 16}}).attention_windows, IsEmpty());
  json qwen = {{"num_hidden_layers", 3}, {"max_window_layers", 2}, {"sliding_window", 100}};
  EXPECT_THAT(Decoder("qwen2", qwen).attention_windows, IsEmpty());
  qwen["use_sliding_window"] = true;
  EXPECT_THAT(Decoder("qwen2", qwen).attention_windows, ElementsAre(0, 0, 100));
  qwen["layer_types"] = {"sliding_attention", "full_attention", "full_attention"};
  EXPECT_THAT(Decoder("qwen3", qwen).attention_windows, ElementsAre(100, 0, 0));
}

// Some of the frequencies, among them such as llama3 and yarn blend.
std::vector<float> SomeFrequencies(const json& rope) {
  const StackSpec decoder =
      Decoder("llama", {{"rope_parameters", rope}, {"max_position_embeddings", 131072}});
  std::vector<float> some;
  for (const size_t pair : {1, 20, 32, 40, 45, 63}) {
    if (pair < decoder.rotary.frequencies.size()) some.push_back(decoder.rotary.frequencies[pair]);
  }
  return some;
}

void ExpectFloats(const std::vector<float>& found, const std::vector<float>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) EXPECT_FLOAT_EQ(found[i], expected[i]) << i;
}

TEST(LlamaLikeTest, RotaryFrequenciesAreTheTypes) {
  ExpectFloats(SomeFrequencies({{"rope_theta", 500000.0}}),
               {0.814617217f, 0.0165604409f, 0.00141421345f, 0.000274248188f, 9.83811115e-05f,
                2.4551407e-06f});
  ExpectFloats(SomeFrequencies({{"rope_type", "llama3"},
                                {"rope_theta", 500000.0},
                                {"factor", 8.0},
                                {"low_freq_factor", 1.0},
                                {"high_freq_factor", 4.0},
                                {"original_max_position_embeddings", 8192}}),
               {0.814617217f, 0.0165604409f, 0.000524846022f, 3.42810235e-05f, 1.22976389e-05f,
                3.06892588e-07f});
  ExpectFloats(SomeFrequencies({{"rope_type", "yarn"},
                                {"rope_theta", 1000000.0},
                                {"factor", 4.0},
                                {"original_max_position_embeddings", 32768}}),
               {0.805842221f, 0.0133352149f, 0.000602941145f, 4.44569851e-05f, 1.51074091e-05f,
                3.10234441e-07f});
  ExpectFloats(SomeFrequencies({{"rope_type", "yarn"},
                                {"factor", 16.0},
                                {"original_max_position_embeddings", 4096},
                                {"beta_fast", 20.0},
                                {"beta_slow", 2.0},
                                {"truncate", false}}),
               {0.865964353f, 0.0562341288f, 0.00543578202f, 0.000236627617f, 9.62454069e-05f,
                7.21738706e-06f});
  // As transformers takes null: not for silence. Files of YaRN say that they were fine-tuned.
  ExpectFloats(SomeFrequencies({{"type", "yarn"},
                                {"finetuned", true},
                                {"factor", 16.0},
                                {"original_max_position_embeddings", 4096},
                                {"beta_fast", 20.0},
                                {"beta_slow", 2.0},
                                {"truncate", nullptr}}),
               {0.865964353f, 0.0562341288f, 0.00543578202f, 0.000236627617f, 9.62454069e-05f,
                7.21738706e-06f});
  ExpectFloats(SomeFrequencies({{"rope_type", "linear"}, {"factor", 3}}),
               {0.288654774f, 0.018744709f, 0.00333333318f, 0.00105409266f, 0.000513308856f,
                3.84927298e-05f});
  ExpectFloats(SomeFrequencies({{"rope_type", "dynamic"}, {"factor", 3}}),
               {0.865964353f, 0.0562341288f, 0.00999999978f, 0.00316227786f, 0.00153992651f,
                0.000115478193f});
}

TEST(LlamaLikeTest, RotaryTablesHoldScaledCosinesAndSines) {
  const json yarn = {{"rope_type", "yarn"},
                     {"rope_theta", 1000000.0},
                     {"factor", 4.0},
                     {"original_max_position_embeddings", 32768}};
  const RotarySpec rotary =
      Decoder("llama", {{"rope_parameters", yarn}, {"max_position_embeddings", 131072}}).rotary;
  EXPECT_FLOAT_EQ(rotary.scale, 1.13862944f);
  std::vector<float> table(2 * 128);
  FillRotaryTable(rotary, 0, table);
  EXPECT_EQ(table[0], rotary.scale);
  EXPECT_EQ(table[64], 0.0f);
  FillRotaryTable(rotary, 999, table);
  const float* row = &table[128];
  ExpectFloats({row[0], row[1], row[20], row[63]},
               {0.640341341f, -0.0269926377f, 0.818349957f, 1.13862932f});
  ExpectFloats({row[64], row[65], row[84], row[127]},
               {0.941509426f, 1.13830948f, 0.791694582f, 0.000353242067f});
  const json given = {{"rope_type", "yarn"}, {"factor", 4.0}, {"attention_factor", 1.25}};
  EXPECT_EQ(Decoder("llama", {{"rope_parameters", given}}).rotary.scale, 1.25f);
}

TEST(LlamaLikeTest, RotaryTablesHoldLongSequencesBehindShortOnes) {
  const RotarySpec rotary = {
      .frequencies = {0.5f}, .long_frequencies = {0.25f}, .original_positions = 3};
  std::vector<float> table(2 * 4);
  FillRotaryTable(rotary, 1, table);  // positions 1, 2 of short sequences, 0, 1 of long ones
  ExpectFloats(table, {std::cos(0.5f), std::sin(0.5f), std::cos(1.0f), std::sin(1.0f), 1, 0,
                       std::cos(0.25f), std::sin(0.25f)});
}

// transformers before 5 had other fields, and the type had another name.
TEST(LlamaLikeTest, OlderFieldsMeanTheSame) {
  const StackSpec older = Decoder(
      "llama", {{"rope_theta", 5000.0}, {"rope_scaling", {{"type", "linear"}, {"factor", 2.0}}}});
  const json parameters = {{"rope_theta", 5000.0}, {"rope_type", "linear"}, {"factor", 2.0}};
  const StackSpec newer = Decoder("llama", {{"rope_parameters", parameters}});
  EXPECT_EQ(older.rotary.frequencies, newer.rotary.frequencies);
  EXPECT_NE(older.rotary.frequencies,
            Decoder("llama", {{"rope_theta", 5000.0}}).rotary.frequencies);
  const StackSpec empty =
      Decoder("llama", {{"rope_parameters", parameters}, {"rope_scaling", json::object()}});
  EXPECT_EQ(empty.rotary.frequencies, newer.rotary.frequencies);
  const json llama3 = {{"rope_type", "llama3"},
                       {"factor", 4.0},
                       {"low_freq_factor", 1.0},
                       {"high_freq_factor", 4.0}};
  json with_original = llama3;
  with_original["original_max_position_embeddings"] = 512;
  EXPECT_EQ(Decoder("llama", {{"rope_scaling", with_original}}).rotary.frequencies,
            Decoder("llama", {{"rope_scaling", llama3}, {"original_max_position_embeddings", 512}})
                .rotary.frequencies);
}

TEST(LlamaLikeTest, WhatIsNotServedIsNamed) {
  const auto rope = [](const json& parameters) { return json{{"rope_scaling", parameters}}; };
  const json llama3 = {{"rope_type", "llama3"},
                       {"factor", 4.0},
                       {"low_freq_factor", 4.0},
                       {"high_freq_factor", 4.0}};
  const json types = {{"num_hidden_layers", 2}, {"layer_types", {"full_attention", "other"}}};
  const json sliding = {{"num_hidden_layers", 1}, {"layer_types", {"sliding_attention"}}};
  const std::pair<json, std::string> faults[] = {
      {rope({{"rope_type", "longrope"}}),
       "config.json: rope_scaling: short_factor is missing; 64 numbers above 0 are expected"},
      {rope({{"rope_type", "proportional"}}),
       "config.json: rope_scaling: rope_type is \"proportional\"; supported are default, linear, "},
      {rope({{"type", "su"}}), "config.json: rope_scaling: type is \"su\"; supported are default"},
      {rope({{"rope_type", "linear"}}), "rope_scaling: factor is missing; a number above 0"},
      {rope({{"rope_type", "linear"}, {"factor", 0}}), "rope_scaling: factor is 0; a number above"},
      {rope({{"rope_type", "linear"}, {"factor", "2"}}), "factor is \"2\"; a finite number"},
      {rope({{"rope_type", "linear"}, {"factor", 2}, {"beta_fast", 3}}),
       "rope_scaling: beta_fast is 3; no such field is supported"},
      {rope({{"sliding_attention", {{"rope_theta", 3}}}}), "sliding_attention is {"},
      {rope(llama3), "high_freq_factor is 4.0; a number above low_freq_factor"},
      {rope("linear"), "config.json: rope_scaling is \"linear\"; an object is expected"},
      {{{"rope_parameters", {{"rope_theta", 1}}}}, "rope_parameters: rope_theta is 1; a number"},
      {{{"rope_theta", -1}}, "config.json: rope_theta is -1; a number above 1"},
      {{{"partial_rotary_factor", 0.5}}, "partial_rotary_factor is 0.5; only 1 is supported"},
      {{{"head_dim", 7}}, "head_dim is 7; heads of an even size are expected, not of 7"},
      {{{"head_dim", 1 << 19}}, "max_position_embeddings is missing; at most 512 are expected"},
      {{{"head_dim", 512}, {"max_position_embeddings", 1 << 20}},
       "max_position_embeddings is 1048576; at most 524288 are expected with heads of 512"},
      {{{"num_attention_heads", 24}, {"num_key_value_heads", 5}},
       "num_key_value_heads is 5; a divisor of num_attention_heads, 24, is expected"},
      {{{"num_attention_heads", 32}, {"hidden_size", 96}},
       "num_attention_heads is 32; heads of an even size are expected, not of 3"},
      {{{"num_attention_heads", 3}}, "num_attention_heads is 3; hidden_size must be a multiple"},
      {{{"rms_norm_eps", -1e-6}}, "rms_norm_eps is -1e-06; a number from 0 to 1 is expected"},
      {{{"hidden_act", "xielu"}}, "hidden_act is \"xielu\"; supported are gelu, "},
      {types, "layer_types is [\"full_attention\",\"other\"]; 2 of \"full_attention\" and"},
      {sliding, "layer_types is [\"sliding_attention\"]; layer 0 attends to all here"},
      {{{"architectures", {"LlamaForQuestionAnswering"}}}, "served are LlamaForCausalLM"},
  };
  for (const auto& [fields, message] : faults) {
    EXPECT_THAT(Error("llama", fields), HasSubstr(message)) << fields;
  }
  EXPECT_THAT(Error("qwen2", sliding), HasSubstr("layer 0 attends to all here"));
  json full = {{"num_hidden_layers", 1}, {"layer_types", {"full_attention"}}};
  EXPECT_EQ(Error("llama", full), "");
  EXPECT_THAT(Error("mistral", full), HasSubstr("layer 0 attends within sliding_window here"));
}

}  // namespace
}  // namespace beamline::llama_like_test
