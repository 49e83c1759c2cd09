// BART and what is built like it: encoder-decoders with biases everywhere, norms before or behind
// each branch, and learned or sinusoidal positions. A family is a BartLike, which says where it
// differs.
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
  // Of transformers' configuration class, where config.json does not say.
  int32_t vocab_size = 50265;
  std::string_view activation = "gelu";
  bool scale_embedding = false;
  int32_t pad_token_id = 1;
  int32_t decoder_start_token_id = -1;  // none

  NormPlacement placement = NormPlacement::kPost;
  bool has_embedding_norm = false;
  bool has_final_norm = false;
  // kLearned: behind two rows that no token has. kShiftedSinusoidal: behind that of the padding
  // token.
  PositionKind positions = PositionKind::kLearned;
  bool has_logits_bias = true;  // where the checkpoint has it
  bool exceeds_float16 = false;
};

// One stack's sizes. `side`: encoder or decoder, as in the names of fields and tensors.
StackSpec ReadBartStack(ConfigFields& config, const BartLike& family, const std::string& side);

// Fields of older files, which transformers' classes do not read; each has one value in every model
// of a family.
void RequireOlderFields(ConfigFields& config, const BartLike& family);

// Names of a layer of the stack whose tensors begin with `stack`.
LayerNames BartLayers(const std::string& stack, bool cross_attention);

absl::StatusOr<FamilyDescription> DescribeBartLike(const Checkpoint& checkpoint,
                                                   const BartLike& family);

}  // namespace beamline
