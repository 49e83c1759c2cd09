// Marian: the post-norm encoder-decoder of the opus-mt translators, with sinusoidal positions.
#include <cmath>
#include <initializer_list>
#include <string>

#include "base/status.h"
#include "engine/models/config_fields.h"
#include "engine/models/families.h"

namespace beamline {
namespace {

// Nothing in the checkpoint bounds computed positions, and tables and steps are made for all of
// them. Marian's models have 512 or 1024.
constexpr int32_t kMaxPositions = 1 << 14;

LinearNames Linear(const std::string& name) { return {{name + ".weight"}, {name + ".bias"}}; }

NormNames Norm(const std::string& name) { return {name + ".weight", name + ".bias"}; }

// Three projections of one attention as one matrix; `parts` of q, k, v.
LinearNames Projections(const std::string& attention, std::initializer_list<const char*> parts) {
  LinearNames names;
  for (const std::string part : parts) {
    names.weights.push_back(attention + part + "_proj.weight");
    names.biases.push_back(attention + part + "_proj.bias");
  }
  return names;
}

LayerNames Layers(const std::string& stack, bool cross_attention) {
  const std::string layer = stack + "layers.{}.";
  LayerNames names;
  names.qkv = Projections(layer + "self_attn.", {"q", "k", "v"});
  names.attention_output = Linear(layer + "self_attn.out_proj");
  names.attention_norm = Norm(layer + "self_attn_layer_norm");
  if (cross_attention) {
    names.cross_query = Projections(layer + "encoder_attn.", {"q"});
    names.cross_key_value = Projections(layer + "encoder_attn.", {"k", "v"});
    names.cross_output = Linear(layer + "encoder_attn.out_proj");
    names.cross_norm = Norm(layer + "encoder_attn_layer_norm");
  }
  names.feed_forward_in = Linear(layer + "fc1");
  names.feed_forward_out = Linear(layer + "fc2");
  names.feed_forward_norm = Norm(layer + "final_layer_norm");
  return names;
}

// `side`: encoder or decoder, as in the names of fields and tensors.
StackSpec Stack(ConfigFields& config, const std::string& side) {
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
  stack.placement = NormPlacement::kPost;
  stack.norm_epsilon = 1e-5f;
  stack.activation = config.ActivationFunction("activation_function", "gelu");
  stack.positions = PositionKind::kSinusoidal;
  stack.max_positions = config.Int("max_position_embeddings", 1, kMaxPositions, 1024);
  stack.vocab_size = config.Size("vocab_size", 58101);
  if (is_decoder) stack.vocab_size = config.Size("decoder_vocab_size", stack.vocab_size);
  if (config.Bool("scale_embedding", false)) {
    stack.token_scale = std::sqrt(static_cast<float>(stack.hidden_size));
  }
  return stack;
}

// The first of `names` that the checkpoint has; the first one when it has none.
std::string FirstStored(const Checkpoint& checkpoint, std::initializer_list<std::string> names) {
  for (const std::string& name : names) {
    if (checkpoint.Contains(name)) return name;
  }
  return *names.begin();
}

}  // namespace

absl::StatusOr<FamilyDescription> DescribeMarian(const Checkpoint& checkpoint) {
  ConfigFields config(checkpoint.config(), "config.json");
  FamilyDescription description;
  TransformerSpec& spec = description.spec;
  config.Alias("d_model", "hidden_size");
  config.Alias("encoder_layers", "num_hidden_layers");
  config.Alias("encoder_attention_heads", "num_attention_heads");
  config.RequireBool("is_encoder_decoder", true, true);
  StackSpec& encoder = spec.encoder.emplace(Stack(config, "encoder"));
  StackSpec& decoder = spec.decoder.emplace(Stack(config, "decoder"));
  const bool tied = config.Bool("tie_word_embeddings", true);
  const bool shared = config.Bool("share_encoder_decoder_embeddings", true);
  // transformers sizes a shared model by vocab_size alone.
  if (shared) decoder.vocab_size = encoder.vocab_size;
  // Fields of older files; each has one value in every model of the family.
  config.RequireBool("normalize_before", false, false);
  config.RequireBool("normalize_embedding", false, false);
  config.RequireBool("add_final_layer_norm", false, false);
  config.RequireBool("static_position_embeddings", true, true);
  BEAMLINE_RETURN_IF_ERROR(config.status());

  const std::string prefix = checkpoint.Contains("final_logits_bias") ? "model." : "";
  const std::string shared_table = prefix + "shared.weight";
  const std::string encoder_table = prefix + "encoder.embed_tokens.weight";
  const std::string decoder_table = prefix + "decoder.embed_tokens.weight";
  const std::string head = "lm_head.weight";
  if (shared && tied) {
    encoder.token_table =
        FirstStored(checkpoint, {shared_table, encoder_table, decoder_table, head});
    decoder.token_table = encoder.token_table;
  } else {
    encoder.token_table = FirstStored(checkpoint, {encoder_table, shared_table});
    decoder.token_table = FirstStored(checkpoint, {decoder_table, shared_table});
  }
  encoder.layers = Layers(prefix + "encoder.", /*cross_attention=*/false);
  decoder.layers = Layers(prefix + "decoder.", /*cross_attention=*/true);

  spec.vocab_size = decoder.vocab_size;
  spec.head = tied ? decoder.token_table : head;
  if (checkpoint.Contains("final_logits_bias")) spec.head_bias = "final_logits_bias";
  // Copies of the tied tables, and the sinusoids, are in some checkpoints.
  spec.ignored_tensors = {prefix + "*.embed_positions.weight"};
  if (tied) spec.ignored_tensors.push_back(head);
  if (shared) {
    spec.ignored_tensors.insert(spec.ignored_tensors.end(),
                                {shared_table, encoder_table, decoder_table});
  }

  // transformers takes no other id from the class where the files have none.
  description.generation.decoder_start_token_id = 58100;
  return description;
}

}  // namespace beamline
