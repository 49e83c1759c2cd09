// StarCoder2: Llama's attention, with LayerNorm, biases and GPT-2's feed-forward.
#include "base/status.h"
#include "engine/models/llama_like.h"

namespace beamline {

absl::StatusOr<FamilyDescription> DescribeStarcoder2(const Checkpoint& checkpoint) {
  ConfigFields config(checkpoint.config(), "config.json");
  const bool has_bias = config.Bool("use_bias", true);
  BEAMLINE_RETURN_IF_ERROR(config.status());
  BEAMLINE_ASSIGN_OR_RETURN(FamilyDescription description,
                            DescribeLlamaLike(checkpoint, {.num_layers = 30,
                                                           .hidden_size = 3072,
                                                           .num_heads = 24,
                                                           .vocab_size = 49152,
                                                           .intermediate_size = 12288,
                                                           .num_key_value_heads = 2,
                                                           .max_position_embeddings = 4096,
                                                           .norm_epsilon = 1e-5f,
                                                           .norm_epsilon_name = "norm_epsilon",
                                                           .activation = "gelu_pytorch_tanh",
                                                           .tied = true,
                                                           .sliding_window = 0,
                                                           .windows = WindowedLayers::kAll}));
  StackSpec& decoder = *description.spec.decoder;
  decoder.norm = NormKind::kLayerNorm;
  decoder.gated = false;
  const std::string layer = LayerPrefix(checkpoint);
  const std::string attention = layer + "self_attn.", mlp = layer + "mlp.";
  LayerNames& names = decoder.layers;
  names.qkv = Stacked(attention, {"q_proj", "k_proj", "v_proj"}, has_bias);
  names.attention_output = Stacked(attention, {"o_proj"}, has_bias);
  names.feed_forward_in = Stacked(mlp, {"c_fc"}, has_bias);
  names.feed_forward_out = Stacked(mlp, {"c_proj"}, has_bias);
  for (NormNames* norm : {&names.attention_norm, &names.feed_forward_norm, &decoder.final_norm}) {
    norm->bias = norm->gain.substr(0, norm->gain.rfind('.')) + ".bias";
  }
  return description;
}

}  // namespace beamline
