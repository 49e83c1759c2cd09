// The edits of a TopCandidates call, as flat arrays for the device.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/backend.h"

namespace beamline::cuda {

// When a row's log-normaliser is subtracted. An additive edit gives the same order before and after
// that. So a row's best are chosen while its exponentials are still being summed. Only the
// repetition penalty, which multiplies, needs the normaliser first.
enum class Normalization : uint8_t {
  kNone,
  kOfTheChosen,  // candidates are chosen by their edited logits, then normalised
  kBeforeEdits,  // a separate pass finds the normaliser first
};

// Limits of the candidates and biases of a plain row.
inline constexpr int kMostPlainCandidates = 32;
inline constexpr int kMostPlainBiases = 8;

// The request of one row. Penalties and biases are ranges of the call's arrays, sorted by id, so
// that the block or warp of a chunk of the vocabulary finds its own.
struct CandidateRow {
  int32_t count = 0;  // candidates wanted
  int32_t forced_id = -1;
  Normalization normalization = Normalization::kNone;
  bool edited = false;
  // Few candidates, with no edits but few biases; or one forced candidate.
  bool plain = false;
  bool edits_in_place = false;  // the row's logits receive the edits
  float repetition_penalty = 1.0f;
  float presence_penalty = 0.0f;
  float frequency_penalty = 0.0f;
  int32_t first_penalty = 0, last_penalty = 0;
  int32_t first_bias = 0, last_bias = 0;
  int32_t num_done = 0;  // finished chunks, counted by the device
};

// All rows of a call.
struct FlatEdits {
  std::vector<CandidateRow> rows;
  bool any_plain = false, any_other = false;
  bool any_before_edits = false;  // a row with Normalization::kBeforeEdits
  bool all_alike = true;          // each row is a copy of the first, as in a beam search
  std::vector<LogitsEdits::Penalty> penalties;
  std::vector<LogitsEdits::Bias> biases;
};

// The rows of a call and their edits. REQUIRES: the call's arguments are valid.
FlatEdits FlattenEdits(const TopCandidatesParams& params);

}  // namespace beamline::cuda
