// Beam search with the hypotheses and scores of Hugging Face's vectorised `_beam_search`
// (transformers/generation/utils.py, since 4.49): see beam_decoder.cc for the step.
//
// Where transformers fills up with beams at -1e9, because fewer tokens are allowed than there are
// beams, there is no beam here, and a hypothesis that such a beam would become is not returned.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/decoding/group_decoder.h"
#include "engine/decoding/hypothesis_tree.h"
#include "engine/decoding/logits_shaper.h"
#include "engine/decoding/sequence_text.h"
#include "engine/decoding/token_logprobs.h"

namespace beamline {

class BeamDecoder final : public GroupDecoder {
 public:
  // tokenizer outlives the decoder. REQUIRES: kind is kBeam.
  BeamDecoder(const ResolvedDecoding& decoding, std::span<const int32_t> prompt,
              const Tokenizer& tokenizer, bool wants_deltas);

  int32_t max_rows() const override { return decoding_.beam_width; }
  std::span<const RowRequest> Requests() override { return requests_; }
  std::vector<Continuation> Advance(std::span<const RowResult> results) override;
  void Stop(FinishReason reason) override;
  bool finished() const override { return finished_; }
  int32_t num_generated_tokens() const override;
  std::vector<GenerateDelta> TakeDeltas() override;
  std::vector<GeneratedSequence> TakeSequences() override;

 private:
  struct Beam {
    int32_t node = HypothesisTree::kRoot;
    float score = 0.0f;  // sum of the edited log-probabilities
    LogitsShaper shaper;
    std::optional<SequenceText> text;  // with stop strings only
  };
  struct Hypothesis {
    int32_t node = HypothesisTree::kRoot;
    float score = 0.0f;  // divided by length ^ length_penalty
    FinishReason reason = FinishReason::kNone;
  };
  // A token that may continue a beam.
  struct Candidate {
    float score = 0.0f;
    int32_t row = 0;
    int32_t index = 0;  // in the row's candidates
    TokenChoice choice;
  };
  // A candidate that lives on.
  struct Survivor {
    Candidate candidate;
    std::optional<SequenceText> text;
  };

  void WriteRequests();
  // Ranks the candidates of all rows; ends and continues hypotheses. Fills survivors_.
  void ChooseSurvivors(std::span<const RowResult> results);
  bool NextCandidate(std::span<const RowResult> results, Candidate& candidate);
  FinishReason FinishAfter(const Candidate& candidate, std::optional<SequenceText>& text) const;
  int32_t AddNode(const Candidate& candidate, const RowResult& row);
  std::vector<Continuation> ContinueBeams(std::span<const RowResult> results);

  float NormalizedScore(float score, int32_t length) const;
  bool Keeps(float score) const;
  void Keep(const Hypothesis& hypothesis);
  void KeepLiveBeams(FinishReason reason);
  bool CanImprove() const;

  void Finish();
  GeneratedSequence BuildSequence(const Hypothesis& hypothesis) const;
  void SettlePrefix();

  const ResolvedDecoding decoding_;
  const Tokenizer& tokenizer_;
  const bool wants_deltas_;
  const StopStrings stop_strings_;
  const int32_t max_ranks_;  // candidates of all rows that a step looks at
  int32_t num_candidates_ = 0;
  int32_t num_steps_ = 0;

  HypothesisTree tree_;
  std::vector<Beam> beams_;             // live, best first
  std::vector<Hypothesis> hypotheses_;  // ended, best first, at most beam_width
  std::vector<GeneratedSequence> sequences_;
  bool finished_ = false;

  // What has been streamed of sequence 0.
  int32_t settled_ = HypothesisTree::kRoot;
  size_t settled_bytes_ = 0;
  SequenceText settled_text_;
  std::vector<GenerateDelta> deltas_;

  // Of the step being made; kept for their memory.
  std::vector<RowRequest> requests_;
  std::vector<Candidate> heads_;  // heap: the best candidate not yet taken of each row
  std::vector<Survivor> survivors_;
  std::vector<int32_t> row_tops_;  // AddTop of each row; -1: none yet
  std::vector<int32_t> row_uses_;  // survivors that still need the row's state
  std::vector<Beam> next_beams_;
  std::vector<int32_t> ancestors_;
};

}  // namespace beamline
