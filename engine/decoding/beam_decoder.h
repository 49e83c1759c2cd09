// Beam search with the hypotheses and scores of Hugging Face's vectorised `_beam_search`
// (transformers/generation/utils.py, since 4.49), and diverse beam search with those of its
// `_group_beam_search` (until 4.57): see beam_group.cc for the step of one group.
//
// A plain search is one group of beams. In a diverse one the groups advance one after the other
// within a step, and a token costs a group `diversity_penalty` for each beam of an earlier group
// that chose it; each group has its own hypotheses, and the answer is the best of all groups. A
// group that is over counts as choosing the pad token in each of its beams, as in transformers.
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

#include "engine/decoding/beam_group.h"
#include "engine/decoding/group_decoder.h"
#include "engine/decoding/hamming_diversity.h"
#include "engine/decoding/hypothesis_tree.h"
#include "engine/decoding/sequence_text.h"

namespace beamline {

// There is one for each request: at 1,008 bytes and more, glibc's malloc would merge all small
// pieces that were freed lately before it gives one.
class BeamDecoder final : public GroupDecoder {
 public:
  // tokenizer outlives the decoder. REQUIRES: kind is kBeam.
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
  // The rows as the group is to rank them after what earlier groups chose.
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
  // The next rows are the best candidates but end tokens, and nothing else decides them: no text,
  // no other group, no edits that differ between beams.
  bool runs_ahead_ = false;
  TokenIds end_ids_;
  int32_t num_steps_ = 0;

  HypothesisTree tree_;
  std::vector<BeamGroup> groups_;  // at the first step all have their one beam on the same row
  std::unique_ptr<HammingDiversity> diversity_;  // of several groups
  std::vector<BeamGroup::Hypothesis> answer_;    // of all groups, best first
  std::vector<GeneratedSequence> sequences_;
  bool finished_ = false;

  // What has been streamed of sequence 0.
  int32_t settled_ = HypothesisTree::kRoot;
  size_t settled_bytes_ = 0;
  std::optional<SequenceText> settled_text_;  // with deltas only
  std::vector<GenerateDelta> deltas_;

  // Of the step being made; kept for their memory.
  std::vector<RowRequest> requests_;
  std::vector<float> scores_;
  std::vector<AssumedRow> assumed_;
  RowRequest assumed_request_;  // of every assumed row
  std::vector<Continuation> continuations_;
  std::optional<LogitsShaper> next_shaper_;  // of every assumed row
  std::vector<RowResult> ranked_;
  std::vector<int32_t> ancestors_;
};

}  // namespace beamline
