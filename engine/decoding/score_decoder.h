// Scores given continuations of a prompt instead of choosing tokens. Each row of a step is the
// prompt with (a part of) one continuation. All tokens of that part are "proposed" at once, so one
// step computes the logits before each of them. The rows share the prompt's cache blocks.
//
// A step is filled with continuations in order, up to a token budget. The last row may have only
// the first part of its continuation; the next step continues it.
//
// If long sequences use other rotary angles than short ones (RotarySpec), the long ones come last,
// and no step has both kinds. The first long one computes the prompt again; the others share it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/decoding/group_decoder.h"

namespace beamline {

struct ScoreLimits {
  int32_t max_rows = 64;           // per step
  int32_t max_step_tokens = 64;    // per step, over its rows; at least max_rows
  int32_t tokens_per_row = 1;      // logits of a step that each sequence may count on
  int32_t prompt_tokens = 1;       // before each continuation
  int32_t original_positions = 0;  // as in RotarySpec
};

class ScoreDecoder final : public GroupDecoder {
 public:
  // REQUIRES: at least one continuation, none empty; a prompt of at least one token.
  ScoreDecoder(int32_t last_prompt_token, std::vector<TokenIds> continuations,
               const ScoreLimits& limits);

  // The tokens after the prompt in the group's one row at the start. (Other groups start with the
  // prompt alone.)
  const TokenIds& first_proposals() const { return first_proposals_; }

  // The group's share of a step's logits, in sequences, so that it never waits for other groups. It
  // never has more rows than this.
  int32_t max_rows() const override { return max_rows_; }
  bool generates() const override { return false; }
  int32_t given_length() const override;
  std::span<const RowRequest> Requests() override { return requests_; }
  std::span<const Continuation> Advance(std::span<const RowResult> results) override;
  void Stop(FinishReason reason) override;
  bool finished() const override { return rows_.empty(); }
  // Always 0: the tokens were given.
  int32_t num_generated_tokens() const override { return 0; }
  std::vector<GenerateDelta> TakeDeltas() override { return {}; }
  // One per continuation, in order: its ids, the log-probability of each, and their sum.
  std::vector<GeneratedSequence> TakeSequences() override;

 private:
  // Tokens begin .. end - 1 of a continuation, whose logits the step computes.
  struct Row {
    int32_t continuation = 0;
    int32_t begin = 0;
    int32_t end = 0;
  };

  int32_t Length(const Row& row) const {
    return static_cast<int32_t>(scores_[row.continuation].ids.size());
  }
  // Tokens of the prompt and a continuation.
  int32_t TotalLength(int32_t continuation) const {
    return limits_.prompt_tokens + static_cast<int32_t>(scores_[continuation].ids.size());
  }
  bool IsLong(int32_t continuation) const {
    return limits_.original_positions > 0 && TotalLength(continuation) > limits_.original_positions;
  }
  // Whether the next continuation may share a step with that of `row`.
  bool MayBeginBeside(const Row& row) const {
    return IsLong(order_[num_begun_]) == IsLong(row.continuation);
  }
  // Tokens of a row after the prompt at the end of its step.
  static int32_t Depth(const Row& row) { return row.end - 1; }
  void Record(const Row& row, std::span<const RowResult> results);
  void WriteRequests();

  const int32_t last_prompt_token_;
  const ScoreLimits limits_;
  int32_t max_rows_ = 0;
  TokenIds first_proposals_;
  std::vector<GeneratedSequence> scores_;
  std::vector<int32_t> order_;  // order in which continuations start
  int32_t num_begun_ = 0;       // how many of order_ have started
  std::vector<Row> rows_;       // of the current step
  std::vector<LogitsEdits> edits_;
  std::vector<RowRequest> requests_;
  std::vector<Continuation> continuations_;  // of the last step
};

}  // namespace beamline
