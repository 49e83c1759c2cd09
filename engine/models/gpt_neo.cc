// GPT-Neo: GPT-2 with separate matrices, scores that are not scaled, and layers that attend within
// a window.
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/status.h"
#include "engine/models/config_fields.h"
#include "engine/models/families.h"
#include "fmt/format.h"

namespace beamline {
namespace {

LinearNames Linear(const std::string& name) { return {{name + ".weight"}, {name + ".bias"}}; }
NormNames Norm(const std::string& name) { return {name + ".weight", name + ".bias"}; }

LayerNames Layers(const std::string& prefix) {
  const std::string layer = prefix + "h.{}.";
  const std::string attention = layer + "attn.attention.";
  LayerNames names;
  names.attention_norm = Norm(layer + "ln_1");
  names.qkv = {
      {attention + "q_proj.weight", attention + "k_proj.weight", attention + "v_proj.weight"}};
  names.attention_output = Linear(attention + "out_proj");
  names.feed_forward_norm = Norm(layer + "ln_2");
  names.feed_forward_in = Linear(layer + "mlp.c_fc");
  names.feed_forward_out = Linear(layer + "mlp.c_proj");
  return names;
}

// The window of each layer, 0: none. attention_types is a list of [list of "global" and "local",
// how often it is repeated].
std::vector<int32_t> ReadWindows(const nlohmann::json& object, int32_t num_layers,
                                 ConfigFields& config) {
  const int32_t window = config.Size("window_size", 256);
  const auto found = object.find("attention_types");
  const bool is_given = found != object.end() && !found->is_null();
  const nlohmann::json types =
      is_given ? *found : nlohmann::json::parse(R"([[["global", "local"], 12]])");
  std::vector<int32_t> windows;
  bool is_understood = types.is_array();
  for (size_t i = 0; is_understood && i < types.size(); ++i) {
    const nlohmann::json& item = types[i];
    is_understood = item.is_array() && item.size() == 2 && item[0].is_array() &&
                    item[1].is_number_integer() && item[1] >= 0 && item[1] <= num_layers;
    for (int32_t time = 0; is_understood && time < item[1].get<int32_t>(); ++time) {
      for (const nlohmann::json& type : item[0]) {
        is_understood = is_understood && (type == "global" || type == "local");
        windows.push_back(type == "local" ? window : 0);
      }
      is_understood = is_understood && windows.size() <= static_cast<size_t>(num_layers);
    }
  }
  if (!is_understood || windows.size() != static_cast<size_t>(num_layers)) {
    config.Fault("attention_types",
                 fmt::format("lists of \"global\" and \"local\", each with how often it is "
                             "repeated, of {} layers together are expected",
                             num_layers));
  }
  return windows;
}

}  // namespace

absl::StatusOr<FamilyDescription> DescribeGptNeo(const Checkpoint& checkpoint) {
  ConfigFields config(checkpoint.config(), "config.json");
  FamilyDescription description;
  StackSpec& decoder = description.spec.decoder.emplace();
  config.Alias("num_layers", "num_hidden_layers");
  config.Alias("num_heads", "num_attention_heads");
  config.RequireBool("is_encoder_decoder", false, false);
  decoder.num_layers = config.Size("num_layers", 24);
  decoder.hidden_size = config.Size("hidden_size", 2048);
  decoder.num_heads = config.Size("num_heads", 16);
  decoder.num_kv_heads = decoder.num_heads;
  decoder.head_dim = decoder.hidden_size / decoder.num_heads;
  if (decoder.head_dim * decoder.num_heads != decoder.hidden_size) {
    config.Fault("num_heads", "hidden_size must be a multiple of it");
  }
  decoder.feed_forward_size = config.Size("intermediate_size", 4 * decoder.hidden_size);
  decoder.causal = true;
  decoder.placement = NormPlacement::kPre;
  decoder.norm_epsilon = config.Epsilon("layer_norm_epsilon", 1e-5f);
  decoder.activation = config.ActivationFunction("activation_function", "gelu_new");
  decoder.positions = PositionKind::kLearned;
  decoder.max_positions = config.Size("max_position_embeddings", 2048);
  decoder.vocab_size = config.Size("vocab_size", 50257);
  decoder.attention_windows = ReadWindows(checkpoint.config(), decoder.num_layers, config);
  const bool tied = config.Bool("tie_word_embeddings", true);
  BEAMLINE_RETURN_IF_ERROR(config.status());

  const std::string prefix = checkpoint.Contains("wte.weight") ? "" : "transformer.";
  decoder.token_table = prefix + "wte.weight";
  decoder.position_table = prefix + "wpe.weight";
  decoder.final_norm = Norm(prefix + "ln_f");
  decoder.layers = Layers(prefix);
  CheckTableRows(checkpoint, decoder.token_table, "vocab_size", decoder.vocab_size, config);
  CheckTableRows(checkpoint, decoder.position_table, "max_position_embeddings",
                 decoder.max_positions, config);
  BEAMLINE_RETURN_IF_ERROR(config.status());

  description.spec.vocab_size = decoder.vocab_size;
  description.spec.head = tied ? decoder.token_table : "lm_head.weight";
  // Older checkpoints store the causal mask and a copy of the tied head.
  description.spec.ignored_tensors = {prefix + "h.*.attn.attention.bias",
                                      prefix + "h.*.attn.attention.masked_bias"};
  if (tied) description.spec.ignored_tensors.push_back("lm_head.weight");
  description.generation.bos_token_id = 50256;
  return description;
}

}  // namespace beamline
