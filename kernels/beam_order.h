// The order in which a beam search chooses candidates. The decoder (engine/decoding/beam_group.h)
// and AdvanceBeams on every device share it, because the device chooses before the decoder has seen
// any results.
#pragma once

#include <cstdint>
#include <limits>

#include "kernels/host_device.h"

namespace beamline {

// The score of a beam after one more token: the sum of both, rounded once.
BEAMLINE_HOST_DEVICE inline float BeamScore(float token_score, float beam_score) {
  return token_score + beam_score;
}

// False for scores that cannot be chosen: -infinity and NaN.
BEAMLINE_HOST_DEVICE inline bool MayFollow(float score) {
  return score > -std::numeric_limits<float>::infinity();
}

// True if a candidate precedes another one: the higher score first, then the lower row. Candidates
// of one row keep their order.
BEAMLINE_HOST_DEVICE inline bool GoesBefore(float score, int32_t row, float other_score,
                                            int32_t other_row) {
  return score != other_score ? score > other_score : row < other_row;
}

}  // namespace beamline
