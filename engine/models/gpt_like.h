// GPT-2 and what has its sizes: causal pre-norm decoders whose heads share the hidden size and have
// keys and values each. A family is a GptLike; what it has of its own it sets behind the call.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/models/config_fields.h"
#include "engine/transformer/spec.h"

namespace beamline {

// A field of config.json, and what transformers' configuration class has where it says nothing.
struct SizeField {
  std::string_view name;
  int32_t otherwise = 0;
};

struct GptLike {
  SizeField num_layers = {"num_hidden_layers"};
  SizeField hidden_size = {"hidden_size"};
  SizeField num_heads = {"num_attention_heads"};
  SizeField feed_forward_size;  // otherwise 0: four times the hidden size; no name: always
  SizeField max_positions = {"max_position_embeddings"};
  int32_t vocab_size = 0;
  std::string_view norm_epsilon;                 // no name: always 1e-5, which it is otherwise too
  std::string_view activation_name, activation;  // no name: it stays what it is
};

// Sets these of `decoder`, and the scale of scores by the size of a head.
void ReadGptLike(const GptLike& family, ConfigFields& config, StackSpec& decoder);

// NAME.weight and, where there is one, NAME.bias.
LinearNames NamedLinear(const std::string& name, bool has_bias = true);
NormNames NamedNorm(const std::string& name);

// By how much a head's scores fall with a key's distance (ALiBi, arXiv:2108.12409). Heads beyond a
// power of 2 have every second slope of twice as many.
std::vector<float> AlibiSlopes(int32_t num_heads);

}  // namespace beamline
