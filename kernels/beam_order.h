// Which candidates a beam search goes on with: the rule of the decoder
// (engine/decoding/beam_group.h) and of AdvanceBeams on every device, which chooses before the
// decoder has seen anything.
#pragma once

#include <cstdint>
#include <limits>

#include "kernels/host_device.h"

namespace beamline {

// The score of a beam that goes on with a token: the sum of the two, rounded once.
BEAMLINE_HOST_DEVICE inline float BeamScore(float token_score, float beam_score) {
  return token_score + beam_score;
}

// Whether a token of this score may follow at all. A NaN is not above -infinity either.
BEAMLINE_HOST_DEVICE inline bool MayFollow(float score) {
  return score > -std::numeric_limits<float>::infinity();
}

// Whether a candidate goes before another one: the higher score, of equal ones the earlier row. Of
// one row they come in the order of its candidates.
BEAMLINE_HOST_DEVICE inline bool GoesBefore(float score, int32_t row, float other_score,
                                            int32_t other_row) {
  return score != other_score ? score > other_score : row < other_row;
}

}  // namespace beamline
