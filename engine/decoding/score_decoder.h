// Scores given continuations of a prompt instead of choosing tokens: each row of a step is the
// prompt and (a piece of) one continuation, whose tokens are "proposed" all at once, so that one
// step yields the logits before each of them. The rows share the prompt's cache blocks.
//
// A step is filled with continuations in order, up to a budget of tokens: the last row may hold
// only the beginning of its continuation, and goes on in the next step.
//
// Where long sequences have other angles than short ones (RotarySpec), the long ones come last, and
// no step has both: the first of them computes the prompt again, and the others share that.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/decoding/group_decoder.h"

namespace beamline {

struct ScoreLimits {
  int32_t max_rows = 64;           // of a step
  int32_t max_step_tokens = 64;    // over its rows, at least max_rows
  int32_t tokens_per_row = 1;      // of a step's logits, what a sequence leaves room for
  int32_t prompt_tokens = 1;       // before each continuation
  int32_t original_positions = 0;  // RotarySpec's
};

class ScoreDecoder final : public GroupDecoder {
 public:
  // REQUIRES: at least one continuation, none empty; a prompt of at least one token.
  ScoreDecoder(int32_t last_prompt_token, std::vector<TokenIds> continuations,
               const ScoreLimits& limits);

  // What the group's one row has behind its prompt at the start. (Other groups start with the
  // prompt alone.)
  const TokenIds& first_proposals() const { return first_proposals_; }

  // In sequences, the share of a step's logits that the group may take, so that it never waits for
  // others to leave room; its rows are at most as many.
  int32_t max_rows() const override { return max_rows_; }
  bool generates() const override { return false; }
  int32_t given_length() const override;
  std::span<const RowRequest> Requests() override { return requests_; }
  std::span<const Continuation> Advance(std::span<const RowResult> results) override;
  void Stop(FinishReason reason) override;
  bool finished() const override { return rows_.empty(); }
  // None: the tokens were given.
  int32_t num_generated_tokens() const override { return 0; }
  std::vector<GenerateDelta> TakeDeltas() override { return {}; }
  // One per continuation, in their order: its ids, the log-probability of each, and their sum.
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
  // Of a continuation, with the prompt.
  int32_t TotalLength(int32_t continuation) const {
    return limits_.prompt_tokens + static_cast<int32_t>(scores_[continuation].ids.size());
  }
  bool IsLong(int32_t continuation) const {
    return limits_.original_positions > 0 && TotalLength(continuation) > limits_.original_positions;
  }
  // Whether the continuation that is to be begun next may go beside that of a row.
  bool MayBeginBeside(const Row& row) const {
    return IsLong(order_[num_begun_]) == IsLong(row.continuation);
  }
  // Tokens that a row has behind the prompt when its step is done.
  static int32_t Depth(const Row& row) { return row.end - 1; }
  void Record(const Row& row, std::span<const RowResult> results);
  void WriteRequests();

  const int32_t last_prompt_token_;
  const ScoreLimits limits_;
  int32_t max_rows_ = 0;
  TokenIds first_proposals_;
  std::vector<GeneratedSequence> scores_;
  std::vector<int32_t> order_;  // in which continuations are begun
  int32_t num_begun_ = 0;       // of them
  std::vector<Row> rows_;       // of the current step
  std::vector<LogitsEdits> edits_;
  std::vector<RowRequest> requests_;
  std::vector<Continuation> continuations_;  // of the last step
};

}  // namespace beamline
