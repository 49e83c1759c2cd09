// What a group of a diverse beam search (arXiv:1610.02424) pays for a token that earlier groups
// have chosen at the same step: transformers' HammingDiversityLogitsProcessor, applied to the
// candidates of a row instead of to the whole vocabulary. That is exact when a row has as many
// candidates more as there are tokens to lower, because nothing rises.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "engine/decoding/group_decoder.h"
#include "engine/decoding/logits_shaper.h"

namespace beamline {

class HammingDiversity {
 public:
  // penalty: per beam that chose the token; >= 0.
  explicit HammingDiversity(float penalty) : penalty_(penalty) {}

  void StartStep();
  // `beams` beams of the groups so far have chosen the token at this step.
  void Count(int32_t token, int32_t beams) { chosen_[token] += beams; }
  // The row's candidates at their lowered scores, best first again. The penalty comes before the
  // shaper's edits, as in transformers. Valid until StartStep.
  RowResult Rank(const RowResult& row, const LogitsShaper& shaper);

 private:
  struct Ranking {
    std::vector<int32_t> ids;
    std::vector<float> values, raw_values;
  };

  float penalty_;
  absl::flat_hash_map<int32_t, int32_t> chosen_;  // token to beams
  std::vector<Ranking> rankings_;                 // of the step's rows so far
  size_t num_rankings_ = 0;
  // Of the row being ranked; kept for their memory.
  std::vector<float> scores_;
  std::vector<int32_t> order_;
};

}  // namespace beamline
