// BART and similar encoder-decoders: biases everywhere, norms before or after each branch, learned
// or sinusoidal positions. A family is a BartLike, which says how it differs.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/models/config_fields.h"
#include "engine/models/families.h"

namespace beamline {

struct BartLike {
  // Defaults of transformers' configuration class for fields that config.json does not have.
  int32_t vocab_size = 50265;
  std::string_view activation = "gelu";
  bool scale_embedding = false;
  int32_t pad_token_id = 1;
  int32_t decoder_start_token_id = -1;  // none

  NormPlacement placement = NormPlacement::kPost;
  bool has_embedding_norm = false;
  bool has_final_norm = false;
  // kLearned: the table starts with two unused rows. kShiftedSinusoidal: positions start after that
  // of the padding token.
  PositionKind positions = PositionKind::kLearned;
  bool has_logits_bias = true;  // if the checkpoint has it
  bool exceeds_float16 = false;
};

// The sizes of one stack. `side`: encoder or decoder, as in the names of fields and tensors.
StackSpec ReadBartStack(ConfigFields& config, const BartLike& family, const std::string& side);

// Checks fields of older files that transformers' classes do not read; all models of a family have
// the same values.
void RequireOlderFields(ConfigFields& config, const BartLike& family);

// Tensor names of a layer of the stack whose tensors start with `stack`.
LayerNames BartLayers(const std::string& stack, bool cross_attention);

absl::StatusOr<FamilyDescription> DescribeBartLike(const Checkpoint& checkpoint,
                                                   const BartLike& family);

}  // namespace beamline
