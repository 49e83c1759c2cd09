// What config.json says of BART, T5 and what is built like them, and how their tables are found.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "engine/models/models.h"
#include "tests/engine/checkpoint/checkpoint_folder.h"

namespace beamline::encoder_decoders_test {
namespace {

using nlohmann::json;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

absl::StatusOr<ModelDescription> Describe(const std::string& model_type, const json& fields,
                                          const std::vector<NamedShape>& tensors = {}) {
  json config = {{"model_type", model_type}, {"decoder_start_token_id", 2}, {"eos_token_id", 2}};
  config.update(fields);
  const TemporaryFolder folder;
  folder.WriteJson("config.json", config);
  folder.Write("model.safetensors", SafetensorsOf(tensors));
  auto checkpoint = Checkpoint::Open(folder.path());
  if (!checkpoint.ok()) return checkpoint.status();
  return DescribeModel(**checkpoint);
}

TransformerSpec Spec(const std::string& model_type, const json& fields = json::object(),
                     const std::vector<NamedShape>& tensors = {}) {
  const auto description = Describe(model_type, fields, tensors);
  EXPECT_TRUE(description.ok()) << description.status();
  return description.ok() ? description->spec : TransformerSpec();
}

TEST(EncoderDecodersTest, BartIsPostNormBehindANormOfEmbeddings) {
  const TransformerSpec spec = Spec("bart", {{"scale_embedding", true}});
  for (const StackSpec& stack : {*spec.encoder, *spec.decoder}) {
    EXPECT_EQ(stack.placement, NormPlacement::kPost);
    EXPECT_EQ(stack.positions, PositionKind::kLearned);
    EXPECT_EQ(stack.position_offset, 2);
    EXPECT_EQ(stack.max_positions, 1024);
    EXPECT_EQ(stack.token_scale, 32.0f);
    EXPECT_EQ(stack.activation, Activation::kGelu);
    EXPECT_EQ(stack.final_norm.gain, "");
  }
  EXPECT_EQ(spec.decoder->embedding_norm.gain, "model.decoder.layernorm_embedding.weight");
  EXPECT_EQ(spec.encoder->position_table, "model.encoder.embed_positions.weight");
  EXPECT_EQ(
      Spec("bart", json::object(), {{"decoder.layers.0.fc1.weight", {1}}}).decoder->position_table,
      "decoder.embed_positions.weight");
}

TEST(EncoderDecodersTest, TheOthersArePreNorm) {
  for (const char* family : {"mbart", "pegasus", "m2m_100"}) {
    const StackSpec encoder = Spec(family).encoder.value();
    EXPECT_EQ(encoder.placement, NormPlacement::kPre) << family;
    EXPECT_EQ(encoder.final_norm.gain, "model.encoder.layer_norm.weight") << family;
  }
  EXPECT_EQ(Spec("mbart").encoder->embedding_norm.gain, "model.encoder.layernorm_embedding.weight");
  EXPECT_EQ(Spec("pegasus").decoder->positions, PositionKind::kSinusoidal);
  EXPECT_TRUE(Spec("pegasus").exceeds_float16);
  const TransformerSpec m2m = Spec("m2m_100", {{"pad_token_id", 3}});
  EXPECT_EQ(m2m.encoder->position_offset, 4);
  EXPECT_EQ(m2m.encoder->padding_id, 3);
  EXPECT_EQ(m2m.decoder->padding_id, 3);
  EXPECT_EQ(m2m.decoder->activation, Activation::kRelu);
  EXPECT_EQ(m2m.decoder->token_scale, 32.0f);
}

TEST(EncoderDecodersTest, T5sSizesAndScales) {
  const TransformerSpec spec = Spec("t5");
  const StackSpec& decoder = *spec.decoder;
  EXPECT_EQ(decoder.attention_scale, 1.0f);
  EXPECT_EQ(decoder.norm, NormKind::kRmsNorm);
  EXPECT_EQ(decoder.relative.num_buckets, 32);
  EXPECT_EQ(decoder.relative.max_distance, 128);
  EXPECT_EQ(decoder.head_dim, 64);
  EXPECT_EQ(decoder.max_positions, 512);
  EXPECT_FLOAT_EQ(decoder.final_norm_scale, 1.0f / std::sqrt(512.0f));
  EXPECT_EQ(spec.encoder->final_norm_scale, 1.0f);
  EXPECT_THAT(decoder.layers.qkv.biases, IsEmpty());
  EXPECT_FALSE(decoder.gated);
  EXPECT_TRUE(spec.exceeds_float16);
  const json flan = {{"feed_forward_proj", "gated-gelu"}, {"tie_word_embeddings", false}};
  EXPECT_TRUE(Spec("t5", flan).decoder->gated);
  EXPECT_EQ(Spec("t5", flan).decoder->activation, Activation::kGeluTanh);
  EXPECT_EQ(Spec("t5", flan).decoder->final_norm_scale, 1.0f);
  EXPECT_EQ(Spec("t5", {{"scale_decoder_outputs", false}}).decoder->final_norm_scale, 1.0f);
  EXPECT_EQ(Spec("t5", {{"scale_decoder_outputs", nullptr}}).decoder->final_norm_scale, 1.0f);
  EXPECT_NE(Spec("t5", {{"tie_word_embeddings", nullptr}}).decoder->final_norm_scale, 1.0f);
  EXPECT_EQ(Spec("mt5").decoder->final_norm_scale, 1.0f);
  EXPECT_EQ(Spec("t5", {{"num_decoder_layers", nullptr}, {"num_layers", 3}}).decoder->num_layers,
            3);
}

// As T5Config and MT5Config of transformers 5.24 read them.
TEST(EncoderDecodersTest, T5sFunctionAndGateGoBeforeTheirCommonField) {
  const struct {
    json fields;
    Activation activation;
    bool gated;
  } cases[] = {
      {{{"feed_forward_proj", "relu"}, {"is_gated_act", true}}, Activation::kRelu, true},
      {{{"feed_forward_proj", "gated-gelu"}, {"dense_act_fn", "relu"}, {"is_gated_act", false}},
       Activation::kRelu,
       false},
      {{{"feed_forward_proj", "relu"}, {"dense_act_fn", "gelu_new"}, {"is_gated_act", true}},
       Activation::kGeluTanh,
       true},
      {{{"feed_forward_proj", "gated-gelu"}, {"dense_act_fn", "gelu"}}, Activation::kGelu, true},
      {{{"feed_forward_proj", "gated-gelu"}, {"is_gated_act", nullptr}},
       Activation::kGeluTanh,
       false},
  };
  for (const char* family : {"t5", "mt5"}) {
    for (const auto& [fields, activation, gated] : cases) {
      SCOPED_TRACE(fields.dump());
      const TransformerSpec spec = Spec(family, fields);
      for (const StackSpec& stack : {*spec.encoder, *spec.decoder}) {
        EXPECT_EQ(stack.activation, activation);
        EXPECT_EQ(stack.gated, gated);
      }
    }
  }
}

// As transformers 5 ties: what is stored twice with other values is not one.
TEST(EncoderDecodersTest, OneTableIsReadWhereCopiesAreEqual) {
  const json sizes = {{"vocab_size", 3}, {"d_model", 13}};
  const TransformerSpec lone = Spec("t5", sizes, {{"lm_head.weight", {3, 13}}});
  EXPECT_EQ(lone.encoder->token_table, "lm_head.weight");
  EXPECT_EQ(lone.decoder->token_table, "lm_head.weight");
  const TransformerSpec copies =
      Spec("t5", sizes, {{"shared.weight", {3, 13}}, {"decoder.embed_tokens.weight", {3, 13}}});
  EXPECT_EQ(copies.decoder->token_table, "shared.weight");
  EXPECT_EQ(copies.head, "shared.weight");
  EXPECT_THAT(copies.ignored_tensors, Contains("decoder.embed_tokens.weight"));
  const TransformerSpec apart =
      Spec("t5", sizes, {{"shared.weight", {3, 13}}, {"lm_head.weight", {4, 13}}});
  EXPECT_EQ(apart.head, "lm_head.weight");
  EXPECT_EQ(Spec("bart", {{"tie_word_embeddings", false}}).head, "lm_head.weight");
}

TEST(EncoderDecodersTest, OtherValuesAreNamed) {
  const struct {
    const char* model_type;
    json fields;
    const char* message;
  } kCases[] = {
      {"bart", {{"normalize_before", true}}, "normalize_before is true; only false"},
      {"bart", {{"static_position_embeddings", true}}, "static_position_embeddings is true"},
      {"bart", {{"normalize_embedding", false}}, "normalize_embedding is false; only true"},
      {"bart", {{"activation_function", "mish"}}, "activation_function is \"mish\"; supported"},
      {"bart", {{"is_decoder", true}}, "is_decoder is true"},
      {"bart", {{"decoder_attention_heads", 7}}, "decoder_attention_heads is 7; d_model must"},
      {"bart", {{"scale_embedding", 3}}, "scale_embedding is 3; true or false"},
      {"mbart", {{"add_final_layer_norm", false}}, "add_final_layer_norm is false; only true"},
      {"pegasus", {{"normalize_embedding", true}}, "normalize_embedding is true; only false"},
      {"pegasus", {{"max_position_embeddings", 20000}}, "a whole number from 1 to 16384"},
      {"m2m_100", {{"pad_token_id", -1}}, "pad_token_id is -1"},
      {"m2m_100",
       {{"pad_token_id", 2}},
       "decoder_start_token_id is 2; another id than the padding's is expected"},
      {"m2m_100",
       {{"d_model", 3}, {"encoder_attention_heads", 1}, {"decoder_attention_heads", 1}},
       "d_model is 3; at least 4"},
      {"t5", {{"dense_act_fn", "swoosh"}}, "dense_act_fn is \"swoosh\"; supported are "},
      {"t5", {{"dense_act_fn", nullptr}}, "dense_act_fn is null; a function is expected"},
      {"t5", {{"is_causal", true}}, "is_causal is true; none is expected of an encoder-decoder"},
      {"bart", {{"is_causal", false}}, "is_causal is false; none is expected"},
      {"marian", {{"is_causal", nullptr}}, "is_causal is null; none is expected"},
      {"t5", {{"feed_forward_proj", "gated-mish"}}, "feed_forward_proj is \"gated-mish\"; supp"},
      {"t5", {{"relative_attention_num_buckets", 3}}, "relative_attention_num_buckets is 3"},
      {"t5", {{"relative_attention_max_distance", 16}}, "relative_attention_max_distance is 16"},
      {"t5", {{"is_encoder_decoder", false}}, "is_encoder_decoder is false; only true"},
      {"t5", {{"layer_norm_epsilon", 2}}, "layer_norm_epsilon is 2; a number from 0 to 1"},
      {"t5", {{"head_dim", 3}, {"d_kv", 4}}, "head_dim is 3; it is d_kv's other name"},
      {"mt5", {{"n_positions", 0}}, "n_positions is 0; a whole number from 1 to 16384"},
      {"t5", {{"architectures", {"T5EncoderModel"}}}, "served are T5ForConditionalGeneration"},
  };
  for (const auto& [model_type, fields, message] : kCases) {
    SCOPED_TRACE(message);
    EXPECT_THAT(std::string(Describe(model_type, fields).status().message()), HasSubstr(message));
  }
}

}  // namespace
}  // namespace beamline::encoder_decoders_test
