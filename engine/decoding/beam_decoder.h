// Beam search with the hypotheses and scores of Hugging Face's vectorised `_beam_search`
// (transformers/generation/utils.py, since 4.49), and diverse beam search with those of its
// `_group_beam_search` (until 4.57). beam_group.cc describes the step of one group.
//
// A plain search is one group of beams. In diverse search the groups advance one after the other
// within a step. A token costs a group `diversity_penalty` for each beam of an earlier group that
// chose it. Each group has its own hypotheses; the answer is the best over all groups. As in
// transformers, each beam of a finished group counts as choosing the pad token.
//
// If fewer tokens are allowed than there are beams, transformers adds beams with a score of -1e9.
// This decoder adds none, and does not return the hypotheses that such beams would become.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/decoding/beam_group.h"
#include "engine/decoding/group_decoder.h"
#include "engine/decoding/hamming_diversity.h"
#include "engine/decoding/hypothesis_tree.h"
#include "engine/decoding/sequence_text.h"

namespace beamline {

// One is allocated per request and must stay below 1,008 bytes: for larger allocations glibc's
// malloc first merges all small pieces that were freed lately.
class BeamDecoder final : public GroupDecoder {
 public:
  // The tokenizer must outlive the decoder. REQUIRES: kind is kBeam.
  BeamDecoder(const ResolvedDecoding& decoding, std::span<const int32_t> prompt,
              const Tokenizer& tokenizer, bool wants_deltas);

  int32_t max_rows() const override { return decoding_.beam_width; }
  std::span<const RowRequest> Requests() override { return requests_; }
  std::optional<BeamRequest> Beams() override;
  std::optional<std::span<const AssumedRow>> Assume() override;
  std::span<const Continuation> Advance(std::span<const RowResult> results) override;
  void Stop(FinishReason reason) override;
  bool finished() const override { return finished_; }
  int32_t num_generated_tokens() const override;
  int64_t num_computed_tokens() const override { return int64_t{num_steps_} * max_rows(); }
  std::vector<GenerateDelta> TakeDeltas() override;
  std::vector<GeneratedSequence> TakeSequences() override;

 private:
  void WriteRequests();
  void WriteScores();
  void WriteRequest(const LogitsShaper& shaper, size_t group, RowRequest& request) const;
  int32_t NumCandidates(size_t group) const;
  // The group's rows, reranked by the penalty for tokens that earlier groups chose.
  std::span<const RowResult> Rank(const BeamGroup& group, std::span<const RowResult> rows);

  void Finish();
  GeneratedSequence BuildSequence(const BeamGroup::Hypothesis& hypothesis) const;
  void SettlePrefix();
  void StreamRest();

  const ResolvedDecoding decoding_;
  const Tokenizer& tokenizer_;
  const bool wants_deltas_;
  const StopStrings stop_strings_;
  const std::shared_ptr<const ShapingRules> rules_;
  // The backend can choose the next rows: they are the best candidates without end tokens. No text,
  // other group, or edit that differs between beams affects the choice.
  bool runs_ahead_ = false;
  TokenIds end_ids_;
  int32_t num_steps_ = 0;

  HypothesisTree tree_;
  std::vector<BeamGroup> groups_;  // at the first step, each has one beam, all on the same row
  std::unique_ptr<HammingDiversity> diversity_;  // only with several groups
  std::vector<BeamGroup::Hypothesis> answer_;    // over all groups, best first
  std::vector<GeneratedSequence> sequences_;
  bool finished_ = false;

  // What was streamed of sequence 0 so far.
  int32_t settled_ = HypothesisTree::kRoot;
  size_t settled_bytes_ = 0;
  std::optional<SequenceText> settled_text_;  // with deltas only
  std::vector<GenerateDelta> deltas_;

  // Scratch of the current step; kept to reuse memory.
  std::vector<RowRequest> requests_;
  std::vector<float> scores_;
  std::vector<AssumedRow> assumed_;
  RowRequest assumed_request_;  // shared by all assumed rows
  std::vector<Continuation> continuations_;
  std::optional<LogitsShaper> next_shaper_;  // shared by all assumed rows
  std::vector<RowResult> ranked_;
  std::vector<int32_t> ancestors_;
};

}  // namespace beamline
