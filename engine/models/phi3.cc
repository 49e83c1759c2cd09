// Phi-3 and models stored like it: Llama with queries, keys and values in one matrix, and the gate
// and up projections in another.
#include <string_view>

#include "base/status.h"
#include "engine/models/llama_like.h"

namespace beamline {
namespace {

constexpr std::string_view kLongRopeNames[] = {"su", "yarn"};

}  // namespace

absl::StatusOr<FamilyDescription> DescribePhi3(const Checkpoint& checkpoint) {
  BEAMLINE_ASSIGN_OR_RETURN(
      FamilyDescription description,
      DescribeLlamaLike(checkpoint, {.hidden_size = 3072,
                                     .vocab_size = 32064,
                                     .intermediate_size = 8192,
                                     .max_position_embeddings = 4096,
                                     .norm_epsilon = 1e-5f,
                                     .sliding_window = 0,
                                     .rotary = {.may_be_partial = true,
                                                .original_positions = 4096,
                                                .longrope_names = kLongRopeNames},
                                     .windows = WindowedLayers::kAll}));
  LayerNames& names = description.spec.decoder->layers;
  const std::string layer = LayerPrefix(checkpoint);
  names.qkv = Stacked(layer + "self_attn.", {"qkv_proj"}, /*has_bias=*/false);
  names.feed_forward_in = Stacked(layer + "mlp.", {"gate_up_proj"}, /*has_bias=*/false);
  return description;
}

}  // namespace beamline
