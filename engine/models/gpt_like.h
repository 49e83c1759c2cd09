// GPT-2 and similar causal pre-norm decoders: heads divide the hidden size, and each head has its
// own keys and values. A family is a GptLike; it sets everything else after the call.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/models/config_fields.h"
#include "engine/transformer/spec.h"

namespace beamline {

// A field of config.json, and its default in transformers' configuration class.
struct SizeField {
  std::string_view name;
  int32_t otherwise = 0;
};

struct GptLike {
  SizeField num_layers = {"num_hidden_layers"};
  SizeField hidden_size = {"hidden_size"};
  SizeField num_heads = {"num_attention_heads"};
  SizeField feed_forward_size;  // default 0: four times the hidden size; no name: always the
                                // default
  SizeField max_positions = {"max_position_embeddings"};
  int32_t vocab_size = 0;
  std::string_view norm_epsilon;                 // no name: always 1e-5; else 1e-5 by default
  std::string_view activation_name, activation;  // no name: unchanged
};

// Sets these fields of `decoder`, and the attention scale from the head size.
void ReadGptLike(const GptLike& family, ConfigFields& config, StackSpec& decoder);

// By how much a head's scores fall with a key's distance (ALiBi, arXiv:2108.12409). Heads beyond a
// power of 2 have every second slope of twice as many.
std::vector<float> AlibiSlopes(int32_t num_heads);

}  // namespace beamline
