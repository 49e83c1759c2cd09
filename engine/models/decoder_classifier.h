// Classifiers of decoders: ...ForSequenceClassification and ...ForTokenClassification of what is
// built like Llama or GPT-2.
#pragma once

#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/models/models.h"

namespace beamline {

// What transformers' classes of a family have.
struct DecoderHeads {
  // pad_token_id where config.json does not say; -1: none.
  int32_t padding_id = -1;
  std::string_view tokens = "score";  // the head's name in a classifier of tokens
};

// Makes the layers of `spec`, a decoder's, those of an encoder that classifies texts or tokens, as
// config.json's architectures say. A class of texts is scored by a product without a bias of the
// last hidden state that is not of padding, one of tokens by a product with one. Faults are of
// config.json. REQUIRES: IsClassifier(checkpoint).
absl::Status BecomeClassifier(const Checkpoint& checkpoint, const DecoderHeads& heads,
                              TransformerSpec& spec, ClassifyDefaults& defaults);

}  // namespace beamline
