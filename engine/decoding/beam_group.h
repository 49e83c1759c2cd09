// One group of beams: the live and the finished hypotheses of one search. A plain beam search has
// one group; a diverse search has several, which search in parallel (beam_decoder.h).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/decoding/group_decoder.h"
#include "engine/decoding/hamming_diversity.h"
#include "engine/decoding/hypothesis_tree.h"
#include "engine/decoding/logits_shaper.h"
#include "engine/decoding/sequence_text.h"
#include "engine/decoding/token_logprobs.h"

namespace beamline {

class BeamGroup {
 public:
  struct Beam {
    int32_t node = HypothesisTree::kRoot;
    float score = 0.0f;  // sum of the edited log-probabilities
    LogitsShaper shaper;
    std::unique_ptr<SequenceText> text =
        nullptr;  // includes special tokens; only with stop strings
  };
  struct Hypothesis {
    int32_t node = HypothesisTree::kRoot;
    float score = 0.0f;  // divided by length ^ length_penalty
    FinishReason reason = FinishReason::kNone;
  };

  // first: the only beam of the first step. decoding and tree must outlive the group.
  BeamGroup(const ResolvedDecoding& decoding, HypothesisTree& tree, Beam first);

  int32_t width() const { return width_; }
  // Candidates that a step needs per row.
  int32_t num_candidates() const { return num_candidates_; }

  // found: the backend's results, one per live beam. ranked: the same results with the scores to
  // rank by; `found` itself if no penalty changes a score. Appends the rows of the next step, none
  // if the search is over. The group's first row in this step is row `first_row`.
  void Advance(std::span<const RowResult> found, std::span<const RowResult> ranked,
               int32_t first_row, std::vector<Continuation>& continuations);
  // Counts the tokens that the beams chose at the last step, even if the search is over.
  void CountChosen(HammingDiversity& diversity) const;
  // Ends the search now; live beams that score well enough become hypotheses.
  void Stop(FinishReason reason);

  bool over() const { return beams_.empty(); }
  std::span<const Beam> beams() const { return beams_; }                  // live, best first
  std::span<const Hypothesis> hypotheses() const { return hypotheses_; }  // ended, best first

 private:
  // A token that may continue a beam.
  struct Candidate {
    float score = 0.0f;
    int32_t row = 0;
    int32_t index = 0;  // in the row's ranked candidates
    TokenChoice choice;
  };
  // A candidate that stays live.
  struct Survivor {
    Candidate candidate;
    std::unique_ptr<SequenceText> text;
  };

  // Ranks the candidates of all rows; finishes and continues hypotheses. Fills survivors_.
  void ChooseSurvivors(std::span<const RowResult> found, std::span<const RowResult> ranked);
  FinishReason FinishAfter(const Candidate& candidate, std::unique_ptr<SequenceText>& text) const;
  int32_t AddNode(const Candidate& candidate, const RowResult& row);
  void ContinueBeams(std::span<const RowResult> found, int32_t first_row,
                     std::vector<Continuation>& continuations);

  float NormalizedScore(float score, int32_t length) const;
  bool Keeps(float score) const;
  void Keep(const Hypothesis& hypothesis);
  void KeepSurvivors(std::span<const RowResult> found);
  bool CanImprove() const;

  const ResolvedDecoding& decoding_;
  HypothesisTree& tree_;
  const int32_t width_;
  const int32_t max_ranks_;  // candidates that a step considers, over all rows
  const bool of_many_;       // uses the end condition of transformers' group search
  int32_t num_candidates_ = 0;
  int32_t num_steps_ = 0;

  std::vector<Beam> beams_;
  std::vector<Hypothesis> hypotheses_;  // at most width_

  // Scratch of the current step; kept to reuse memory.
  float best_score_ = 0.0f;       // of all candidates
  std::vector<Candidate> heads_;  // heap: for each row, its best candidate not yet taken
  std::vector<Survivor> survivors_;
  std::vector<int32_t> row_tops_;  // AddTop of each row; -1: none yet
  std::vector<int32_t> row_uses_;  // survivors that still need the row's state
  std::vector<Beam> next_beams_;
};

}  // namespace beamline
