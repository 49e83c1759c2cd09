// What config.json says of decoders beside Llama's kin and GPT-2. That their answers are
// transformers' show the golden checkpoints.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "engine/models/models.h"
#include "tests/engine/checkpoint/checkpoint_folder.h"

namespace beamline::decoder_families_test {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::FloatNear;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

absl::StatusOr<ModelDescription> Describe(const std::string& model_type, const json& fields,
                                          int32_t max_model_len = 0) {
  json config = {{"model_type", model_type}};
  config.update(fields);
  const TemporaryFolder folder;
  folder.WriteJson("config.json", config);
  folder.Write("model.safetensors", SafetensorsOf({}));
  auto checkpoint = Checkpoint::Open(folder.path());
  if (!checkpoint.ok()) return checkpoint.status();
  return DescribeModel(**checkpoint, max_model_len);
}

StackSpec Decoder(const std::string& model_type, const json& fields = json::object()) {
  const auto description = Describe(model_type, fields);
  EXPECT_TRUE(description.ok()) << description.status();
  return description.ok() ? description->spec.decoder.value() : StackSpec();
}

std::string Error(const std::string& model_type, const json& fields, int32_t max_model_len = 0) {
  return std::string(Describe(model_type, fields, max_model_len).status().message());
}

// transformers 5 shows later tokens to these, but for GPT-Neo, whose mask is its own.
TEST(DecoderFamilies, DecodersThatAreNotCausalAreRefused) {
  for (const char* family : {"gpt2", "gptj", "gpt_neox", "opt", "bloom", "falcon", "llama", "qwen3",
                             "gemma3_text", "starcoder2"}) {
    SCOPED_TRACE(family);
    EXPECT_THAT(Error(family, {{"is_causal", false}}),
                HasSubstr("is_causal is false; only true is supported"));
    EXPECT_THAT(Error(family, {{"is_causal", nullptr}}),
                HasSubstr("is_causal is null; only true is supported"));
    EXPECT_THAT(Error(family, {{"is_causal", true}}), Not(HasSubstr("is_causal")));
  }
  EXPECT_THAT(Error("gpt_neo", {{"is_causal", false}}), Not(HasSubstr("is_causal")));
}

TEST(DecoderFamilies, APartOfAHeadMayBeRotated) {
  EXPECT_EQ(Decoder("phi3").rotary.frequencies.size(), 48u);  // of 96, half of which are pairs
  EXPECT_EQ(Decoder("phi3", {{"partial_rotary_factor", 0.75}}).rotary.frequencies.size(), 36u);
  EXPECT_EQ(Decoder("gpt_neox").rotary.frequencies.size(), 12u);  // a quarter of 96
  EXPECT_EQ(Decoder("gpt_neox", {{"rotary_pct", 0.5}}).rotary.frequencies.size(), 24u);
  EXPECT_EQ(Decoder("gptj").rotary.frequencies.size(), 32u);
  EXPECT_TRUE(Decoder("gptj").rotary.interleaved);
  EXPECT_FALSE(Decoder("gpt_neox").rotary.interleaved);
  EXPECT_THAT(Error("gpt_neox", {{"rotary_pct", 0.02}}),
              HasSubstr("rotary_pct is 0.02; a part of heads of 96 that is even is expected"));
  EXPECT_THAT(Error("phi3", {{"partial_rotary_factor", 1.5}}),
              HasSubstr("partial_rotary_factor is 1.5; a part of heads of 96 that is even"));
  EXPECT_THAT(Error("falcon", {{"partial_rotary_factor", 0.5}}),
              HasSubstr("partial_rotary_factor is 0.5; only 1 is supported"));
  for (const json& refused : {json(nullptr), json(7), json(258)}) {
    EXPECT_THAT(Error("gptj", {{"rotary_dim", refused}}),
                HasSubstr("an even number up to 256, of a head's elements, is expected"));
  }
}

// Phi-3 of 128K: beyond 4,096 tokens the angles of all of them are others.
TEST(DecoderFamilies, LongRopeHasAnglesOfShortAndOfLongSequences) {
  const json rope = {{"rope_type", "longrope"},
                     {"short_factor", {1.0, 2.0, 4.0, 8.0}},
                     {"long_factor", {3.0, 3.0, 3.0, 3.0}}};
  const json fields = {{"hidden_size", 16},
                       {"num_attention_heads", 2},
                       {"max_position_embeddings", 131072},
                       {"original_max_position_embeddings", 4096},
                       {"rope_scaling", rope}};
  const auto described = Describe("phi3", fields);
  ASSERT_TRUE(described.ok()) << described.status();
  const RotarySpec& rotary = described->spec.decoder->rotary;
  EXPECT_EQ(rotary.original_positions, 4096);
  EXPECT_EQ(described->spec.decoder->num_position_rows(), 131072 + 4096);
  EXPECT_EQ(rotary.first_row(4096), 0);
  EXPECT_EQ(rotary.first_row(4097), 4096);
  EXPECT_THAT(rotary.long_frequencies,
              ElementsAre(FloatNear(1.0f / 3, 1e-7f), FloatNear(0.1f / 3, 1e-8f),
                          FloatNear(0.01f / 3, 1e-9f), FloatNear(0.001f / 3, 1e-10f)));
  // Where no sequence is long, there is one set.
  const auto limited = Describe("phi3", fields, 4096);
  ASSERT_TRUE(limited.ok()) << limited.status();
  EXPECT_EQ(limited->spec.decoder->rotary.original_positions, 0);
  EXPECT_EQ(limited->spec.decoder->num_position_rows(), 4096);
  // 10000 ^ (i / 4) times the factor; sqrt(1 + ln 32 / ln 4096).
  EXPECT_THAT(rotary.frequencies,
              ElementsAre(FloatNear(1.0f, 1e-7f), FloatNear(0.05f, 1e-8f),
                          FloatNear(0.0025f, 1e-9f), FloatNear(0.000125f, 1e-10f)));
  EXPECT_FLOAT_EQ(rotary.scale, 1.1902381f);
  json shorter = fields;
  shorter["rope_scaling"]["short_factor"] = {1.0};
  EXPECT_THAT(Error("phi3", shorter, 4096), HasSubstr("short_factor is [1.0]; 4 numbers above 0"));
  shorter["rope_scaling"]["short_factor"] = {1.0, 0.0, 1.0, 1.0};
  EXPECT_THAT(Error("phi3", shorter, 4096), HasSubstr("4 numbers above 0 are expected"));
  for (const char* const older : {"su", "yarn"}) {
    json renamed = fields;
    renamed["rope_scaling"].erase("rope_type");
    renamed["rope_scaling"]["type"] = older;
    const auto same = Describe("phi3", renamed);
    ASSERT_TRUE(same.ok()) << same.status();
    EXPECT_EQ(same->spec.decoder->rotary.long_frequencies, rotary.long_frequencies);
  }
  json whole = fields;
  whole["original_max_position_embeddings"] = 131072;
  EXPECT_TRUE(Describe("phi3", whole).ok());
}

TEST(DecoderFamilies, BranchesAreParallelAsTheFamilySays) {
  EXPECT_TRUE(Decoder("gpt_neox").parallel);
  EXPECT_FALSE(Decoder("gpt_neox", {{"use_parallel_residual", false}}).parallel);
  const StackSpec gptj = Decoder("gptj");
  EXPECT_TRUE(gptj.parallel);
  EXPECT_EQ(gptj.layers.attention_norm.gain, gptj.layers.feed_forward_norm.gain);
  EXPECT_EQ(Decoder("falcon").layers.feed_forward_norm.gain,
            "transformer.h.{}.input_layernorm.weight");
  const StackSpec second = Decoder("falcon", {{"new_decoder_architecture", true},
                                              {"hidden_size", 64},
                                              {"num_attention_heads", 8},
                                              {"num_kv_heads", 2}});
  EXPECT_EQ(second.num_kv_heads, 2);
  EXPECT_EQ(second.layers.feed_forward_norm.gain, "transformer.h.{}.ln_mlp.weight");
  const StackSpec sequential =
      Decoder("falcon", {{"parallel_attn", false}, {"multi_query", false}});
  EXPECT_FALSE(sequential.parallel);
  EXPECT_EQ(sequential.num_kv_heads, 71);
  EXPECT_EQ(Decoder("falcon").num_kv_heads, 1);
}

TEST(DecoderFamilies, WhatFalconDoesNotComputeIsRefused) {
  const std::vector<std::pair<json, std::string>> refused = {
      {{{"new_decoder_architecture", true}, {"parallel_attn", false}},
       "parallel_attn is false; only true is supported with new_decoder_architecture"},
      {{{"new_decoder_architecture", true}, {"num_kv_heads", 2}},
       "num_kv_heads is 2; a divisor of num_attention_heads, 71, is expected"},
      {{{"multi_query", false},
        {"num_attention_heads", 4},
        {"hidden_size", 32},
        {"num_kv_heads", 2}},
       "num_kv_heads is 2; num_attention_heads, 4, is expected without new_decoder_architecture"},
      {{{"num_ln_in_parallel_attn", 2}}, "only 1 is supported without new_decoder_architecture"},
  };
  for (const auto& [fields, message] : refused) {
    EXPECT_THAT(Error("falcon", fields), HasSubstr(message));
  }
}

TEST(DecoderFamilies, FalconsOfRefinedWebHaveAlibi) {
  const StackSpec spec =
      Decoder("falcon", {{"alibi", true}, {"hidden_size", 32}, {"num_attention_heads", 8}});
  EXPECT_EQ(spec.positions, PositionKind::kAlibi);
  EXPECT_EQ(spec.rounded_alibi_factor, 0.5f);
  EXPECT_EQ(spec.alibi_slopes.front(), 0.5f);
  EXPECT_TRUE(spec.rotary.frequencies.empty());
  EXPECT_EQ(Decoder("falcon").rounded_alibi_factor, 0.0f);
}

TEST(DecoderFamilies, OlmosNormsAreBehindBranchesOrPlain) {
  const StackSpec second = Decoder("olmo2", {{"num_key_value_heads", 4}});
  EXPECT_TRUE(second.norms_all_heads);
  EXPECT_TRUE(second.layers.attention_norm.empty());
  EXPECT_EQ(second.layers.feed_forward_output_norm.gain,
            "model.layers.{}.post_feedforward_layernorm.weight");
  const StackSpec first = Decoder("olmo", {{"clip_qkv", 8.0}});
  EXPECT_EQ(first.head_clip, 8.0f);
  EXPECT_EQ(first.norm, NormKind::kLayerNorm);
  EXPECT_TRUE(first.layers.attention_norm.plain && first.final_norm.plain);
  EXPECT_EQ(Decoder("olmo").head_clip, 0.0f);
  EXPECT_THAT(Error("olmo", {{"clip_qkv", -1.0}}),
              HasSubstr("clip_qkv is -1.0; a number above 0, or null, is expected"));
}

TEST(DecoderFamilies, LayersHaveExpertsAsTheFamilySays) {
  const StackSpec mixtral = Decoder("mixtral", {{"num_local_experts", 4}});
  EXPECT_EQ(mixtral.experts.num_experts, 4);
  EXPECT_EQ(mixtral.experts.num_chosen, 2);
  EXPECT_EQ(mixtral.experts.inner_size, 14336);
  EXPECT_TRUE(mixtral.experts.renormalize);
  EXPECT_TRUE(mixtral.has_experts(0));
  EXPECT_TRUE(mixtral.attention_windows.empty());
  EXPECT_THAT(mixtral.layers.expert_in.weights,
              ElementsAre("model.layers.{}.block_sparse_moe.experts.{}.w1.weight",
                          "model.layers.{}.block_sparse_moe.experts.{}.w3.weight"));
  const json fields = {{"num_hidden_layers", 6},
                       {"decoder_sparse_step", 2},
                       {"mlp_only_layers", {3}},
                       {"num_local_experts", 16}};
  const StackSpec qwen = Decoder("qwen3_moe", fields);
  EXPECT_EQ(qwen.experts.num_experts, 16);
  EXPECT_EQ(qwen.experts.inner_size, 768);
  EXPECT_FALSE(qwen.experts.renormalize);
  EXPECT_THAT(qwen.experts.layers, ElementsAre(false, true, false, false, false, true));
  EXPECT_THAT(qwen.layers.router.weights, ElementsAre("model.layers.{}.mlp.gate.weight"));
  EXPECT_FALSE(Decoder("qwen3").has_experts(0));
  const StackSpec shared = Decoder("qwen2_moe", {{"qkv_bias", false}});
  EXPECT_EQ(shared.experts.num_experts, 60);
  EXPECT_EQ(shared.experts.shared_size, 5632);
  EXPECT_EQ(shared.router_size(), 61);
  EXPECT_TRUE(shared.layers.qkv.biases.empty());
  const StackSpec olmoe = Decoder("olmoe");
  EXPECT_EQ(olmoe.experts.num_experts, 64);
  EXPECT_TRUE(olmoe.norms_all_heads && olmoe.has_experts(15));
  EXPECT_THAT(Error("olmoe", {{"clip_qkv", 8.0}}),
              HasSubstr("clip_qkv is 8.0; only null is supported"));
  EXPECT_THAT(Error("mixtral", {{"num_local_experts", 257}}),
              HasSubstr("num_local_experts is 257; a whole number from 1 to 256 is expected"));
  EXPECT_THAT(Error("qwen3_moe", {{"num_experts", 8}, {"num_experts_per_tok", 9}}),
              HasSubstr("num_experts_per_tok is 9; 1 to num_experts, 8, is expected"));
  EXPECT_THAT(Error("qwen3_moe", {{"use_sliding_window", true}}),
              HasSubstr("use_sliding_window is true; only false is supported"));
}

TEST(DecoderFamilies, GemmasLayersHaveWindowsByPattern) {
  const json fields = {
      {"num_hidden_layers", 4}, {"sliding_window", 5}, {"sliding_window_pattern", 3}};
  const StackSpec decoder = Decoder("gemma3_text", fields);
  EXPECT_THAT(decoder.attention_windows, ElementsAre(5, 5, 0, 5));
  EXPECT_THAT(decoder.layer_rotary, ElementsAre(LayerRotary::kLocal, LayerRotary::kLocal,
                                                LayerRotary::kMain, LayerRotary::kLocal));
  EXPECT_FLOAT_EQ(decoder.rotary.frequencies[1], static_cast<float>(std::pow(1e6, -2.0 / 256)));
  EXPECT_FLOAT_EQ(decoder.local_rotary.frequencies[1],
                  static_cast<float>(std::pow(1e4, -2.0 / 256)));
  EXPECT_FLOAT_EQ(decoder.attention_scale, 1.0f / 16);
  EXPECT_FLOAT_EQ(decoder.token_scale, std::sqrt(2304.0f));
  EXPECT_EQ(decoder.layers.query_norm.offset, 1.0f);
  json listed = fields;
  listed["layer_types"] = {"full_attention", "sliding_attention", "full_attention",
                           "full_attention"};
  EXPECT_THAT(Decoder("gemma3_text", listed).attention_windows, ElementsAre(0, 5, 0, 0));
  // A window that no sequence outgrows is none; the layer keeps its angles.
  json wide = fields;
  wide["sliding_window"] = 131072;
  EXPECT_THAT(Decoder("gemma3_text", wide).attention_windows, IsEmpty());
  EXPECT_EQ(Decoder("gemma3_text", wide).layer_rotary[0], LayerRotary::kLocal);
  EXPECT_THAT(Decoder("gemma").attention_windows, IsEmpty());
}

TEST(DecoderFamilies, GemmaCapsScoresAndLogits) {
  const auto caps = [](const std::string& model_type, const json& fields) {
    const auto description = Describe(model_type, fields);
    EXPECT_TRUE(description.ok()) << description.status();
    return std::pair(description->spec.decoder->attention_softcap,
                     description->spec.logits_softcap);
  };
  const json changed = {{"attn_logit_softcapping", nullptr}, {"final_logit_softcapping", 4}};
  EXPECT_EQ(caps("gemma2", json::object()), std::pair(50.0f, 30.0f));
  EXPECT_EQ(caps("gemma2", changed), std::pair(0.0f, 4.0f));
  EXPECT_EQ(caps("gemma3_text", json::object()), std::pair(0.0f, 0.0f));
  EXPECT_EQ(caps("gemma3_text", {{"final_logit_softcapping", 30.0}}), std::pair(0.0f, 30.0f));
  EXPECT_EQ(caps("gemma", json::object()), std::pair(0.0f, 0.0f));
}

TEST(DecoderFamilies, WhatGemmaDoesNotComputeIsRefused) {
  EXPECT_THAT(Error("gemma3_text", {{"attn_logit_softcapping", 30.0}}),
              HasSubstr("attn_logit_softcapping is 30.0; only null is supported"));
  EXPECT_THAT(Error("gemma2", {{"attn_logit_softcapping", 0.0}}),
              HasSubstr("attn_logit_softcapping is 0.0; a number above 0, or null, is expected"));
  EXPECT_THAT(Error("gemma3_text", {{"query_pre_attn_scalar", 0}}),
              HasSubstr("query_pre_attn_scalar is 0; a number above 0 is expected"));
  EXPECT_THAT(Error("gemma3_text", {{"rope_parameters", {{"rope_theta", 1e4}}}}),
              HasSubstr("rope_parameters: rope_theta is 10000.0; no such field is supported"));
  EXPECT_THAT(
      Error("gemma3_text", {{"rope_parameters", {{"sliding_attention", {{"rope_theta", 1.0}}}}}}),
      HasSubstr("rope_parameters: sliding_attention: rope_theta is 1.0; a number above 1"));
  EXPECT_THAT(Error("gemma", {{"use_bidirectional_attention", true}}),
              HasSubstr("use_bidirectional_attention is true; only false is supported"));
  EXPECT_THAT(Error("gemma3", json::object()), HasSubstr("model_type is \"gemma3\"; served are"));
}

TEST(DecoderFamilies, WhatOptDoesNotComputeIsRefused) {
  EXPECT_EQ(Decoder("opt").position_offset, 2);
  EXPECT_EQ(Decoder("opt").placement, NormPlacement::kPre);
  const StackSpec post = Decoder("opt", {{"do_layer_norm_before", false}});
  EXPECT_EQ(post.placement, NormPlacement::kPost);
  EXPECT_EQ(post.final_norm.gain, "");
  EXPECT_EQ(post.projected_size, 0);
  const StackSpec projected = Decoder("opt", {{"word_embed_proj_dim", 512}});
  EXPECT_EQ(projected.projected_size, 512);
  EXPECT_THAT(projected.output_projection.weights, ElementsAre("model.decoder.project_out.weight"));
  EXPECT_THAT(Error("opt", {{"layer_norm_elementwise_affine", false}}),
              HasSubstr("layer_norm_elementwise_affine is false; only true is supported"));
}

TEST(DecoderFamilies, GptNeosLayersHaveWindowsAsTheirTypesSay) {
  const auto types = [](const json& list) {
    return json{{"num_layers", 3}, {"window_size", 9}, {"attention_types", list}};
  };
  EXPECT_THAT(
      Decoder("gpt_neo", types(json::parse(R"([[["global", "local"], 1], [["local"], 1]])")))
          .attention_windows,
      ElementsAre(0, 9, 9));
  EXPECT_EQ(Decoder("gpt_neo").attention_windows.size(), 24u);
  for (const char* const refused :
       {R"([[["global"], 2]])", R"([[["global"], 4]])", R"([[["near"], 3]])", R"([["global", 3]])",
        R"([[["global"], -3]])", R"([[["global"], 3, 1]])", R"({"global": 3})", "3",
        R"([[[], 2000000000]])"}) {
    EXPECT_THAT(Error("gpt_neo", types(json::parse(refused))),
                HasSubstr("\"local\", each with how often it is repeated, of 3 layers together"))
        << refused;
  }
}

TEST(DecoderFamilies, EpsilonsAreSmall) {
  const std::pair<const char*, const char*> names[] = {
      {"starcoder2", "norm_epsilon"},   {"gpt_neox", "layer_norm_eps"},
      {"gptj", "layer_norm_epsilon"},   {"gpt_neo", "layer_norm_epsilon"},
      {"falcon", "layer_norm_epsilon"}, {"bloom", "layer_norm_epsilon"},
      {"gemma3_text", "rms_norm_eps"},  {"phi3", "rms_norm_eps"},
      {"gpt2", "layer_norm_epsilon"}};
  for (const auto& [model_type, name] : names) {
    for (const double refused : {-1e-6, 1.5}) {
      EXPECT_THAT(Error(model_type, {{name, refused}}),
                  HasSubstr("; a number from 0 to 1 is expected"))
          << model_type;
    }
  }
}

TEST(DecoderFamilies, Starcoder2HasBiasesOrNone) {
  const LayerNames names = Decoder("starcoder2").layers;
  EXPECT_EQ(names.qkv.biases.size(), 3u);
  EXPECT_EQ(names.attention_norm.bias, "model.layers.{}.input_layernorm.bias");
  EXPECT_THAT(Decoder("starcoder2", {{"use_bias", false}}).layers.qkv.biases, IsEmpty());
}

// arXiv:2108.12409: of four heads 2^-2, 2^-4 ...; a fifth and sixth have those between.
TEST(DecoderFamilies, BloomsHeadsHaveSlopes) {
  const auto slopes = [](int32_t num_heads) {
    return Decoder("bloom", {{"hidden_size", 2 * num_heads}, {"n_head", num_heads}}).alibi_slopes;
  };
  EXPECT_THAT(slopes(4), ElementsAre(0.25f, 0.0625f, 0.015625f, 0.00390625f));
  EXPECT_THAT(slopes(6), ElementsAre(0.25f, 0.0625f, 0.015625f, 0.00390625f, FloatNear(0.5f, 1e-7f),
                                     FloatNear(0.125f, 1e-7f)));
  EXPECT_THAT(slopes(1), ElementsAre(FloatNear(0.00390625f, 1e-9f)));
  EXPECT_EQ(Decoder("bloom").max_positions, 2048);
  EXPECT_EQ(Decoder("bloom", {{"seq_length", 512}}).max_positions, 512);
  EXPECT_THAT(Error("bloom", {{"apply_residual_connection_post_layernorm", true}}),
              HasSubstr("apply_residual_connection_post_layernorm is true; only false"));
}

TEST(DecoderFamilies, SomeOfSmolLmsLayersRotateNothing) {
  using enum LayerRotary;
  const json three = {{"num_hidden_layers", 3}};
  EXPECT_THAT(Decoder("smollm3", {{"num_hidden_layers", 5}}).layer_rotary,
              ElementsAre(kMain, kMain, kMain, kNone, kMain));
  json listed = three;
  listed["no_rope_layers"] = {0, 1, 0};
  EXPECT_THAT(Decoder("smollm3", listed).layer_rotary, ElementsAre(kNone, kMain, kNone));
  listed["no_rope_layers"] = {0, 1};
  EXPECT_THAT(Error("smollm3", listed), HasSubstr("no_rope_layers is [0,1]; a 0 or 1 of each of "
                                                  "3 layers is expected"));
  listed["no_rope_layers"] = {0, 1, 2};
  EXPECT_THAT(Error("smollm3", listed), HasSubstr("a 0 or 1 of each of 3 layers is expected"));
  EXPECT_THAT(Error("smollm3", {{"use_sliding_window", true}}),
              HasSubstr("use_sliding_window is true; only false is supported"));
}

}  // namespace
}  // namespace beamline::decoder_families_test
