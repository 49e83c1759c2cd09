// BART, mBART, Pegasus and M2M100 (also NLLB), as their classes in transformers.
#include "engine/models/bart_like.h"

namespace beamline {
namespace {

constexpr BartLike kBart = {.decoder_start_token_id = 2, .has_embedding_norm = true};

constexpr BartLike kMBart = {
    .placement = NormPlacement::kPre, .has_embedding_norm = true, .has_final_norm = true};

constexpr BartLike kPegasus = {.pad_token_id = 0,
                               .decoder_start_token_id = 0,
                               .placement = NormPlacement::kPre,
                               .has_final_norm = true,
                               .positions = PositionKind::kSinusoidal,
                               .exceeds_float16 = true};

constexpr BartLike kM2M100 = {.vocab_size = 128112,
                              .activation = "relu",
                              .scale_embedding = true,
                              .decoder_start_token_id = 2,
                              .placement = NormPlacement::kPre,
                              .has_final_norm = true,
                              .positions = PositionKind::kShiftedSinusoidal,
                              .has_logits_bias = false};

}  // namespace

absl::StatusOr<FamilyDescription> DescribeBart(const Checkpoint& checkpoint) {
  return DescribeBartLike(checkpoint, kBart);
}

absl::StatusOr<FamilyDescription> DescribeMBart(const Checkpoint& checkpoint) {
  return DescribeBartLike(checkpoint, kMBart);
}

absl::StatusOr<FamilyDescription> DescribePegasus(const Checkpoint& checkpoint) {
  return DescribeBartLike(checkpoint, kPegasus);
}

absl::StatusOr<FamilyDescription> DescribeM2M100(const Checkpoint& checkpoint) {
  return DescribeBartLike(checkpoint, kM2M100);
}

}  // namespace beamline
