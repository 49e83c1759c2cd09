#include "engine/transformer/stream_scale.h"

#include <cmath>
#include <utility>

#include "base/check.h"

namespace beamline {
namespace {

bool IsPowerOfTwo(float value) {
  int exponent = 0;
  return value > 0 && std::frexp(value, &exponent) == 0.5f;
}

// A norm with another epsilon, or a missing norm, would make the factor visible in results.
bool NormsAloneRead(const StackSpec& stack) {
  const LayerNames& layer = stack.layers;
  return stack.placement == NormPlacement::kPre && stack.first_is_normed &&
         stack.type_table.empty() && stack.embedding_norm.gain.empty() &&
         stack.projected_size == 0 && !stack.final_norm.gain.empty() &&
         layer.query_norm.gain.empty() && layer.key_norm.gain.empty() &&
         layer.attention_output_norm.gain.empty() && layer.feed_forward_output_norm.gain.empty();
}

void Scale(float scale, StackSpec& stack) {
  BEAMLINE_CHECK(NormsAloneRead(stack));
  stack.stream_scale *= scale;
  stack.token_scale *= scale;
  stack.norm_epsilon *= scale * scale;
}

}  // namespace

TransformerSpec WithStreamScale(TransformerSpec spec, float scale) {
  BEAMLINE_CHECK(IsPowerOfTwo(scale));
  if (spec.encoder.has_value()) Scale(scale, *spec.encoder);
  if (spec.decoder.has_value()) Scale(scale, *spec.decoder);
  return spec;
}

TransformerSpec SpecIn(const TransformerSpec& spec, DType activation_dtype) {
  const bool scales = spec.exceeds_float16 && activation_dtype == DType::kFloat16;
  return scales ? WithStreamScale(spec, kFloat16StreamScale) : spec;
}

}  // namespace beamline
