// GPT-Neo: GPT-2 with separate matrices, unscaled attention scores, and some layers with a sliding
// window.
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/status.h"
#include "engine/models/config_fields.h"
#include "engine/models/families.h"
#include "engine/models/gpt_like.h"
#include "engine/models/layer_names.h"
#include "engine/models/shared_tables.h"
#include "fmt/format.h"

namespace beamline {
namespace {

constexpr GptLike kGptNeo = {.num_layers = {"num_layers", 24},
                             .hidden_size = {"hidden_size", 2048},
                             .num_heads = {"num_heads", 16},
                             .feed_forward_size = {"intermediate_size"},
                             .max_positions = {"max_position_embeddings", 2048},
                             .vocab_size = 50257,
                             .norm_epsilon = "layer_norm_epsilon",
                             .activation_name = "activation_function",
                             .activation = "gelu_new"};

LayerNames GptNeoLayers(const std::string& prefix) {
  const std::string layer = prefix + "h.{}.";
  const std::string attention = layer + "attn.attention.";
  LayerNames names;
  names.attention_norm = NamedNorm(layer + "ln_1");
  names.qkv = {
      {attention + "q_proj.weight", attention + "k_proj.weight", attention + "v_proj.weight"}};
  names.attention_output = NamedLinear(attention + "out_proj");
  names.feed_forward_norm = NamedNorm(layer + "ln_2");
  names.feed_forward_in = NamedLinear(layer + "mlp.c_fc");
  names.feed_forward_out = NamedLinear(layer + "mlp.c_proj");
  return names;
}

// The window of each layer, 0: none. attention_types is a list of [list of "global" and "local",
// how often it is repeated].
std::vector<int32_t> ReadGptNeoWindows(const nlohmann::json& object, int32_t num_layers,
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
  ReadGptLike(kGptNeo, config, decoder);
  decoder.attention_scale = 1.0f;
  decoder.positions = PositionKind::kLearned;
  decoder.attention_windows = ReadGptNeoWindows(checkpoint.config(), decoder.num_layers, config);
  const bool tied = config.Bool("tie_word_embeddings", true);
  BEAMLINE_RETURN_IF_ERROR(config.status());

  const std::string prefix = checkpoint.Contains("wte.weight") ? "" : "transformer.";
  decoder.token_table = prefix + "wte.weight";
  decoder.position_table = prefix + "wpe.weight";
  decoder.final_norm = NamedNorm(prefix + "ln_f");
  decoder.layers = GptNeoLayers(prefix);
  CheckTableRows(checkpoint, decoder.token_table, "vocab_size", decoder.vocab_size, config);
  CheckTableRows(checkpoint, decoder.position_table, "max_position_embeddings",
                 decoder.max_positions, config);
  BEAMLINE_RETURN_IF_ERROR(config.status());

  description.spec.vocab_size = decoder.vocab_size;
  // Older checkpoints store the causal mask.
  description.spec.ignored_tensors = {prefix + "h.*.attn.attention.bias",
                                      prefix + "h.*.attn.attention.masked_bias"};
  NameHead(checkpoint, "lm_head.weight", tied, description.spec);
  description.generation.bos_token_id = 50256;
  return description;
}

}  // namespace beamline
