#include "engine/models/bart_like.h"

#include <cmath>
#include <initializer_list>

#include "base/status.h"
#include "engine/models/layer_names.h"
#include "engine/models/shared_tables.h"

namespace beamline {
namespace {

// The checkpoint does not bound computed positions, but tables and steps are sized for all of them.
// Real models have 512 or 1024.
constexpr int32_t kMaxComputedPositions = 1 << 14;
// Rows of learned positions before position 0.
constexpr int32_t kLearnedOffset = 2;
// Smallest width for which the frequencies of shifted sinusoids are defined.
constexpr int32_t kLeastShiftedWidth = 4;

// Projections of one attention as one matrix; `parts` of q, k, v.
LinearNames Projections(const std::string& attention, std::initializer_list<const char*> parts) {
  LinearNames names;
  for (const std::string part : parts) {
    names.weights.push_back(attention + part + "_proj.weight");
    names.biases.push_back(attention + part + "_proj.bias");
  }
  return names;
}

}  // namespace

void RequireOlderFields(ConfigFields& config, const BartLike& family) {
  const bool pre_norm = family.placement == NormPlacement::kPre;
  const bool learned = family.positions == PositionKind::kLearned;
  config.RequireBool("normalize_before", pre_norm, pre_norm);
  config.RequireBool("normalize_embedding", family.has_embedding_norm, family.has_embedding_norm);
  config.RequireBool("add_final_layer_norm", family.has_final_norm, family.has_final_norm);
  config.RequireBool("static_position_embeddings", !learned, !learned);
}

LayerNames BartLayers(const std::string& stack, bool cross_attention) {
  const std::string layer = stack + "layers.{}.";
  LayerNames names;
  names.qkv = Projections(layer + "self_attn.", {"q", "k", "v"});
  names.attention_output = NamedLinear(layer + "self_attn.out_proj");
  names.attention_norm = NamedNorm(layer + "self_attn_layer_norm");
  if (cross_attention) {
    names.cross_query = Projections(layer + "encoder_attn.", {"q"});
    names.cross_key_value = Projections(layer + "encoder_attn.", {"k", "v"});
    names.cross_output = NamedLinear(layer + "encoder_attn.out_proj");
    names.cross_norm = NamedNorm(layer + "encoder_attn_layer_norm");
  }
  names.feed_forward_in = NamedLinear(layer + "fc1");
  names.feed_forward_out = NamedLinear(layer + "fc2");
  names.feed_forward_norm = NamedNorm(layer + "final_layer_norm");
  return names;
}

StackSpec ReadBartStack(ConfigFields& config, const BartLike& family, const std::string& side) {
  const bool is_decoder = side == "decoder";
  StackSpec stack;
  stack.num_layers = config.Size(side + "_layers", 12);
  stack.hidden_size = config.Size("d_model", 1024);
  stack.num_heads = config.Size(side + "_attention_heads", 16);
  stack.num_kv_heads = stack.num_heads;
  stack.head_dim = stack.hidden_size / stack.num_heads;
  if (stack.head_dim * stack.num_heads != stack.hidden_size) {
    config.Fault(side + "_attention_heads", "d_model must be a multiple of it");
  }
  stack.feed_forward_size = config.Size(side + "_ffn_dim", 4096);
  stack.causal = is_decoder;
  stack.cross_attention = is_decoder;
  stack.attention_scale = 1.0f / std::sqrt(static_cast<float>(stack.head_dim));
  stack.placement = family.placement;
  stack.norm_epsilon = 1e-5f;
  stack.activation =
      config.ActivationFunction("activation_function", std::string(family.activation));
  stack.positions = family.positions;
  stack.max_positions = family.positions == PositionKind::kLearned
                            ? config.Size("max_position_embeddings", 1024)
                            : config.Int("max_position_embeddings", 1, kMaxComputedPositions, 1024);
  stack.vocab_size = config.Size("vocab_size", family.vocab_size);
  if (config.Bool("scale_embedding", family.scale_embedding)) {
    stack.token_scale = std::sqrt(static_cast<float>(stack.hidden_size));
  }
  if (family.positions == PositionKind::kLearned) stack.position_offset = kLearnedOffset;
  if (family.positions != PositionKind::kShiftedSinusoidal) return stack;
  const int32_t padding_id =
      config.Int("pad_token_id", 0, stack.vocab_size - 1, family.pad_token_id);
  stack.position_offset = padding_id + 1;
  stack.padding_id = padding_id;
  if (stack.hidden_size < kLeastShiftedWidth) config.Fault("d_model", "at least 4 is expected");
  return stack;
}

absl::StatusOr<FamilyDescription> DescribeBartLike(const Checkpoint& checkpoint,
                                                   const BartLike& family) {
  ConfigFields config(checkpoint.config(), "config.json");
  FamilyDescription description;
  TransformerSpec& spec = description.spec;
  config.Alias("d_model", "hidden_size");
  config.Alias("encoder_layers", "num_hidden_layers");
  config.Alias("encoder_attention_heads", "num_attention_heads");
  config.RequireBool("is_encoder_decoder", true, true);
  config.RequireBool("is_decoder", false, false);
  StackSpec& encoder = spec.encoder.emplace(ReadBartStack(config, family, "encoder"));
  StackSpec& decoder = spec.decoder.emplace(ReadBartStack(config, family, "decoder"));
  const bool tied = config.Bool("tie_word_embeddings", true);
  RequireOlderFields(config, family);
  BEAMLINE_RETURN_IF_ERROR(config.status());

  // Tensor names have no prefix if the model has no head.
  const std::string prefix = checkpoint.Contains("decoder.layers.0.fc1.weight") ? "" : "model.";
  NameTables(checkpoint, prefix, tied, TableOrder::kHeadFirst, spec);
  CheckTableRows(checkpoint, encoder.token_table, "vocab_size", encoder.vocab_size, config);
  BEAMLINE_RETURN_IF_ERROR(config.status());
  for (StackSpec* stack : {&encoder, &decoder}) {
    const std::string side = prefix + (stack == &encoder ? "encoder." : "decoder.");
    stack->layers = BartLayers(side, stack->cross_attention);
    // Computed positions that are stored are used as stored, rounded to the file's type.
    const std::string positions = side + "embed_positions.weight";
    if (family.positions == PositionKind::kSinusoidal && checkpoint.Contains(positions)) {
      stack->positions = PositionKind::kLearned;
    }
    if (stack->positions == PositionKind::kLearned) stack->position_table = positions;
    if (family.has_embedding_norm) stack->embedding_norm = NamedNorm(side + "layernorm_embedding");
    if (family.has_final_norm) stack->final_norm = NamedNorm(side + "layer_norm");
  }
  spec.vocab_size = decoder.vocab_size;
  if (family.has_logits_bias && checkpoint.Contains("final_logits_bias")) {
    spec.head_bias = "final_logits_bias";
  }
  if (family.positions == PositionKind::kShiftedSinusoidal) {
    spec.ignored_tensors.push_back(prefix + "*.embed_positions.weights");
  }
  spec.exceeds_float16 = family.exceeds_float16;
  description.generation.decoder_start_token_id = family.decoder_start_token_id;
  return description;
}

}  // namespace beamline
