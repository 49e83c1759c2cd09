// The edits of a TopCandidates call as flat arrays for the device.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/backend.h"

namespace beamline::cuda {

// What one row asks for. Penalties and biases are ranges of the call's arrays, sorted by id, so
// that whoever owns a stretch of the vocabulary finds its own.
struct CandidateRow {
  int32_t count = 0;  // candidates wanted
  int32_t forced_id = -1;
  bool normalize_first = false;
  float repetition_penalty = 1.0f;
  float presence_penalty = 0.0f;
  float frequency_penalty = 0.0f;
  int32_t first_penalty = 0, last_penalty = 0;
  int32_t first_bias = 0, last_bias = 0;
};

struct FlatEdits {
  std::vector<CandidateRow> rows;
  std::vector<LogitsEdits::Penalty> penalties;
  std::vector<LogitsEdits::Bias> biases;
};

FlatEdits FlattenEdits(const TopCandidatesParams& params);

}  // namespace beamline::cuda
