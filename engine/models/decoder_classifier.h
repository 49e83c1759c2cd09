// Decoder classifiers: ...ForSequenceClassification and ...ForTokenClassification of families like
// Llama and GPT-2.
#pragma once

#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/models/models.h"

namespace beamline {

// Properties of a family's classes in transformers.
struct DecoderHeads {
  // pad_token_id if config.json does not set it; -1: none.
  int32_t padding_id = -1;
  std::string_view tokens = "score";  // name of the head for token classification
};

// Turns `spec` from a decoder into an encoder that classifies texts or tokens, as the architectures
// of config.json say. Text classification: a matmul without bias on the last hidden state that is
// not padding. Token classification: a matmul with bias on every token. Errors name config.json.
// REQUIRES: IsClassifier(checkpoint).
absl::Status BecomeClassifier(const Checkpoint& checkpoint, const DecoderHeads& heads,
                              TransformerSpec& spec, ClassifyDefaults& defaults);

}  // namespace beamline
