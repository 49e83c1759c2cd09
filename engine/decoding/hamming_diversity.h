// The penalty of diverse beam search (arXiv:1610.02424) for tokens that earlier groups chose at the
// same step: transformers' HammingDiversityLogitsProcessor, but applied to the candidates of a row
// instead of the whole vocabulary. The result is exact if the row has one more candidate for each
// penalised token, because the penalty raises no score.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "engine/decoding/group_decoder.h"
#include "engine/decoding/logits_shaper.h"

namespace beamline {

class HammingDiversity {
 public:
  // penalty: per beam that chose the token, >= 0.
  explicit HammingDiversity(float penalty) : penalty_(penalty) {}

  void StartStep();
  // `beams` beams of earlier groups have chosen the token at this step.
  void Count(int32_t token, int32_t beams) { chosen_[token] += beams; }
  // Returns the row's candidates with penalised scores, sorted best first. As in transformers, the
  // penalty is applied before the shaper's edits. Valid until StartStep.
  RowResult Rank(const RowResult& row, const LogitsShaper& shaper);

 private:
  struct Ranking {
    std::vector<int32_t> ids;
    std::vector<float> values, raw_values;
  };

  float penalty_;
  absl::flat_hash_map<int32_t, int32_t> chosen_;  // token -> number of beams
  std::vector<Ranking> rankings_;                 // one per row of the step so far
  size_t num_rankings_ = 0;
  // Scratch of the row being ranked; kept to reuse memory.
  std::vector<float> scores_;
  std::vector<int32_t> order_;
};

}  // namespace beamline
