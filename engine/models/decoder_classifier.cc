#include "engine/models/decoder_classifier.h"

#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "engine/models/config_fields.h"
#include "engine/models/families.h"

namespace beamline {

absl::Status BecomeClassifier(const Checkpoint& checkpoint, const DecoderHeads& heads,
                              TransformerSpec& spec, ClassifyDefaults& defaults) {
  ConfigFields config(checkpoint.config(), "config.json");
  StackSpec& encoder = spec.encoder.emplace(*std::exchange(spec.decoder, std::nullopt));
  // The checkpoint may still contain the decoder's LM head.
  for (const std::string& name : {spec.head, spec.head_bias}) {
    if (!name.empty() && name != encoder.token_table) spec.ignored_tensors.push_back(name);
  }
  spec.head.clear();
  spec.head_bias.clear();
  spec.logits_softcap = 0.0f;

  const bool per_token = IsTokenClassifier(checkpoint);
  const std::string output(per_token ? heads.tokens : "score");
  LinearNames output_names = {{output + ".weight"}};
  if (per_token) output_names.biases = {output + ".bias"};
  // A projection after the last layer (opt-350m) becomes the first matmul of the head; pooling
  // before or after it gives the same result.
  LinearNames dense = std::exchange(encoder.output_projection, LinearNames());
  const int32_t dense_size = dense.weights.empty() ? 0 : encoder.projected_size;
  SetClassifierHead(checkpoint, std::move(dense), Activation::kNone, std::move(output_names),
                    config, spec);
  spec.classifier->dense_size = dense_size;
  spec.classifier->per_token = per_token;
  spec.classifier->pooling = Pooling::kLast;
  // An id that no token has, such as the -1 of some files, means that there is no padding.
  const bool has_none = config.IsNull("pad_token_id");
  defaults.padding_id = config.OptionalInt("pad_token_id", -1, std::numeric_limits<int32_t>::max())
                            .value_or(has_none ? -1 : heads.padding_id);
  return config.status();
}

}  // namespace beamline
