#include "engine/models/gpt_like.h"

#include <bit>
#include <cmath>

#include "fmt/format.h"

namespace beamline {
namespace {

// Appends `count` powers of the base for `num_heads` (a power of 2), with exponents 1, 1 + step,
// ...
void AppendSlopes(double num_heads, int32_t count, int32_t step, std::vector<float>& slopes) {
  constexpr double kLargest = 3.0;  // with 8 heads the first slope is 1/2
  const auto base = static_cast<float>(std::exp2(-std::exp2(kLargest - std::log2(num_heads))));
  for (int32_t i = 0; i < count; ++i) {
    slopes.push_back(std::pow(base, static_cast<float>(1 + i * step)));
  }
}

}  // namespace

void ReadGptLike(const GptLike& family, ConfigFields& config, StackSpec& decoder) {
  const auto size = [&](const SizeField& field) {
    return config.Size(field.name, field.otherwise);
  };
  config.RequireBool("is_encoder_decoder", false, false);
  decoder.num_layers = size(family.num_layers);
  decoder.hidden_size = size(family.hidden_size);
  decoder.num_heads = size(family.num_heads);
  decoder.num_kv_heads = decoder.num_heads;
  decoder.head_dim = decoder.hidden_size / decoder.num_heads;
  if (decoder.head_dim * decoder.num_heads != decoder.hidden_size) {
    config.Fault(family.num_heads.name,
                 fmt::format("{} must be a multiple of it", family.hidden_size.name));
  }
  SizeField inner = family.feed_forward_size;
  if (inner.otherwise == 0) inner.otherwise = 4 * decoder.hidden_size;
  decoder.feed_forward_size = inner.name.empty() ? inner.otherwise : size(inner);
  decoder.causal = true;
  decoder.attention_scale = 1.0f / std::sqrt(static_cast<float>(decoder.head_dim));
  decoder.placement = NormPlacement::kPre;
  if (!family.norm_epsilon.empty()) {
    decoder.norm_epsilon = config.Epsilon(family.norm_epsilon, 1e-5f);
  }
  if (!family.activation_name.empty()) {
    decoder.activation =
        config.ActivationFunction(family.activation_name, std::string(family.activation));
  }
  decoder.max_positions = size(family.max_positions);
  decoder.vocab_size = config.Size("vocab_size", family.vocab_size);
}

std::vector<float> AlibiSlopes(int32_t num_heads) {
  const auto whole = static_cast<int32_t>(std::bit_floor(static_cast<uint32_t>(num_heads)));
  std::vector<float> slopes;
  AppendSlopes(whole, whole, 1, slopes);
  AppendSlopes(2.0 * whole, num_heads - whole, 2, slopes);
  return slopes;
}

}  // namespace beamline
