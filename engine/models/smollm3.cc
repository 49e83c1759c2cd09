// SmolLM3: Llama where some layers have no rotary positions.
#include <algorithm>

#include "base/status.h"
#include "engine/models/llama_like.h"
#include "fmt/format.h"

namespace beamline {

absl::StatusOr<FamilyDescription> DescribeSmolLm3(const Checkpoint& checkpoint) {
  ConfigFields config(checkpoint.config(), "config.json");
  config.RequireBool("use_sliding_window", false, false);
  const TokenIds listed = config.Ids("no_rope_layers");
  const int32_t interval = config.Size("no_rope_layer_interval", 4);
  BEAMLINE_RETURN_IF_ERROR(config.status());
  BEAMLINE_ASSIGN_OR_RETURN(
      FamilyDescription description,
      DescribeLlamaLike(checkpoint, {.num_layers = 36,
                                     .hidden_size = 2048,
                                     .num_heads = 16,
                                     .vocab_size = 128256,
                                     .num_key_value_heads = 4,
                                     .max_position_embeddings = 32768,
                                     .tied = true,
                                     .rotary = {.theta = 2e6},
                                     .attention_biases = AttentionBiases::kAsConfigured,
                                     .has_mlp_bias = true}));
  StackSpec& decoder = *description.spec.decoder;
  if (config.Has("no_rope_layers") &&
      (listed.size() != static_cast<size_t>(decoder.num_layers) ||
       std::ranges::any_of(listed, [](int32_t rotates) { return rotates > 1; }))) {
    config.Fault("no_rope_layers",
                 fmt::format("a 0 or 1 of each of {} layers is expected", decoder.num_layers));
    return config.status();
  }
  for (int32_t layer = 0; layer < decoder.num_layers; ++layer) {
    const bool rotates = listed.empty() ? (layer + 1) % interval != 0 : listed[layer] != 0;
    decoder.layer_rotary.push_back(rotates ? LayerRotary::kMain : LayerRotary::kNone);
  }
  return description;
}

}  // namespace beamline
