// T5 and mT5 (also Flan-T5): a pre-norm encoder-decoder without biases, with RMSNorm, unscaled
// attention scores and relative position biases.
#include <cmath>
#include <initializer_list>
#include <string>

#include "base/status.h"
#include "engine/models/config_fields.h"
#include "engine/models/families.h"
#include "engine/models/shared_tables.h"
#include "fmt/format.h"

namespace beamline {
namespace {

// The checkpoint does not bound positions, but steps are sized for all of them. T5's files say 512.
constexpr int32_t kMaxPositions = 1 << 14;
constexpr int32_t kMaxT5Distance = 1 << 14;
// Half of an encoder's buckets are for one direction, and half of these for exact distances.
constexpr int32_t kLeastBuckets = 4;
constexpr int32_t kMostBuckets = 1 << 10;

// Differences between the two families' classes.
struct T5Like {
  int32_t vocab_size = 32128;
  int32_t feed_forward_size = 2048;
  int32_t num_layers = 6;
  int32_t num_heads = 8;
  const char* feed_forward = "relu";
  // Whether the head's input is scaled, unless the file decides.
  bool scales_head_input = true;
};

constexpr T5Like kT5;
constexpr T5Like kMt5 = {.vocab_size = 250112,
                         .feed_forward_size = 1024,
                         .num_layers = 8,
                         .num_heads = 6,
                         .feed_forward = "gated-gelu",
                         .scales_head_input = false};

LinearNames Stacked(const std::string& prefix, std::initializer_list<const char*> parts) {
  LinearNames names;
  for (const char* part : parts) names.weights.push_back(prefix + part + ".weight");
  return names;
}

LayerNames T5Layers(const std::string& side, bool is_decoder, bool gated) {
  const std::string layer = side + "block.{}.layer.";
  const std::string attention = layer + "0.SelfAttention.", cross = layer + "1.EncDecAttention.";
  const std::string feed_forward = layer + (is_decoder ? "2." : "1.");
  LayerNames names;
  names.attention_norm = {layer + "0.layer_norm.weight", ""};
  names.qkv = Stacked(attention, {"q", "k", "v"});
  names.attention_output = Stacked(attention, {"o"});
  if (is_decoder) {
    names.cross_norm = {layer + "1.layer_norm.weight", ""};
    names.cross_query = Stacked(cross, {"q"});
    names.cross_key_value = Stacked(cross, {"k", "v"});
    names.cross_output = Stacked(cross, {"o"});
  }
  names.feed_forward_norm = {feed_forward + "layer_norm.weight", ""};
  const std::string dense = feed_forward + "DenseReluDense.";
  names.feed_forward_in = gated ? Stacked(dense, {"wi_0", "wi_1"}) : Stacked(dense, {"wi"});
  names.feed_forward_out = Stacked(dense, {"wo"});
  return names;
}

// Reads feed_forward_proj: an activation function, with the prefix "gated-" for a gate.
// dense_act_fn and is_gated_act take precedence if the file has them.
void ReadFeedForward(const T5Like& family, ConfigFields& config, StackSpec& stack) {
  const std::string value = config.String("feed_forward_proj", family.feed_forward);
  if (value == "relu" || value == "gated-relu") {
    stack.activation = Activation::kRelu;
  } else if (value == "gated-gelu" || value == "gelu_new" || value == "gated-gelu_new") {
    stack.activation = Activation::kGeluTanh;
  } else if (value == "gelu") {
    stack.activation = Activation::kGelu;
  } else if (value == "silu" || value == "gated-silu") {
    stack.activation = Activation::kSilu;
  } else {
    config.Fault("feed_forward_proj",
                 "supported are relu, gelu, gelu_new, silu, gated-relu, gated-gelu, "
                 "gated-gelu_new, gated-silu");
  }
  if (config.IsNull("dense_act_fn")) config.Fault("dense_act_fn", "a function is expected");
  if (config.Has("dense_act_fn")) {
    stack.activation = config.ActivationFunction("dense_act_fn", "");
  }
  const bool is_null = config.IsNull("is_gated_act");
  stack.gated = !is_null && config.Bool("is_gated_act", value.starts_with("gated-"));
}

StackSpec T5Stack(const T5Like& family, ConfigFields& config, bool is_decoder) {
  StackSpec stack;
  stack.num_layers = config.Size("num_layers", family.num_layers);
  if (is_decoder) stack.num_layers = config.Size("num_decoder_layers", stack.num_layers);
  stack.hidden_size = config.Size("d_model", 512);
  stack.num_heads = config.Size("num_heads", family.num_heads);
  stack.num_kv_heads = stack.num_heads;
  stack.head_dim = config.Size("d_kv", 64);
  stack.feed_forward_size = config.Size("d_ff", family.feed_forward_size);
  stack.causal = is_decoder;
  stack.cross_attention = is_decoder;
  stack.norm = NormKind::kRmsNorm;
  stack.placement = NormPlacement::kPre;
  stack.norm_epsilon = config.Epsilon("layer_norm_epsilon", 1e-6f);
  ReadFeedForward(family, config, stack);
  stack.positions = PositionKind::kRelative;
  RelativeSpec& relative = stack.relative;
  relative.num_buckets =
      config.Int("relative_attention_num_buckets", kLeastBuckets, kMostBuckets, 32);
  relative.max_distance = config.Int("relative_attention_max_distance", 1, kMaxT5Distance, 128);
  if (relative.max_distance <= relative.num_buckets / 2) {
    config.Fault("relative_attention_max_distance",
                 fmt::format("more than half of relative_attention_num_buckets, {}, is expected",
                             relative.num_buckets));
  }
  stack.max_positions = config.Int("n_positions", 1, kMaxPositions, 512);
  stack.vocab_size = config.Size("vocab_size", family.vocab_size);
  return stack;
}

absl::StatusOr<FamilyDescription> DescribeT5Like(const Checkpoint& checkpoint,
                                                 const T5Like& family) {
  ConfigFields config(checkpoint.config(), "config.json");
  FamilyDescription description;
  TransformerSpec& spec = description.spec;
  config.Alias("d_model", "hidden_size");
  config.Alias("num_layers", "num_hidden_layers");
  config.Alias("num_heads", "num_attention_heads");
  config.Alias("d_kv", "head_dim");
  config.RequireBool("is_encoder_decoder", true, true);
  config.RequireBool("is_decoder", false, false);
  StackSpec& encoder = spec.encoder.emplace(T5Stack(family, config, /*is_decoder=*/false));
  StackSpec& decoder = spec.decoder.emplace(T5Stack(family, config, /*is_decoder=*/true));
  // Files of before transformers 5 say it by tie_word_embeddings alone. Null is not silence.
  const bool scales =
      !config.IsNull("scale_decoder_outputs") &&
      config.Bool("scale_decoder_outputs", config.Bool("tie_word_embeddings", true));
  BEAMLINE_RETURN_IF_ERROR(config.status());

  // The class always ties the embeddings; a stored head with other values decides otherwise.
  NameTables(checkpoint, "", /*tied=*/true, TableOrder::kHeadLast, spec);
  CheckTableRows(checkpoint, encoder.token_table, "vocab_size", encoder.vocab_size, config);
  BEAMLINE_RETURN_IF_ERROR(config.status());
  for (StackSpec* stack : {&encoder, &decoder}) {
    const std::string side = stack == &encoder ? "encoder." : "decoder.";
    stack->layers = T5Layers(side, stack->cross_attention, stack->gated);
    stack->relative.table = side + "block.0.layer.0.SelfAttention.relative_attention_bias.weight";
    stack->final_norm = {side + "final_layer_norm.weight", ""};
  }
  if (scales && family.scales_head_input) {
    decoder.final_norm_scale = 1.0f / std::sqrt(static_cast<float>(decoder.hidden_size));
  }
  spec.vocab_size = decoder.vocab_size;
  spec.exceeds_float16 = true;
  // Older checkpoints store this unused tensor of cross attention.
  spec.ignored_tensors.push_back(
      "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight");
  return description;
}

}  // namespace

absl::StatusOr<FamilyDescription> DescribeT5(const Checkpoint& checkpoint) {
  return DescribeT5Like(checkpoint, kT5);
}

absl::StatusOr<FamilyDescription> DescribeMt5(const Checkpoint& checkpoint) {
  return DescribeT5Like(checkpoint, kMt5);
}

}  // namespace beamline
