// Another decoder's group whose prompt's own log-probabilities are wanted: asks for the logits of
// every prompt token, in pieces, before it hands the last one to the other decoder.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "engine/decoding/decoder_decorator.h"

namespace beamline {

class PromptLogprobsDecoder final : public DecoderDecorator {
 public:
  // num_top: likeliest tokens wanted of each position, 0 .. 20. piece_tokens: prompt tokens that a
  // step may compute, at least 1; tokens_per_row: as ScoreLimits. REQUIRES: a prompt of at least
  // one token.
  PromptLogprobsDecoder(std::unique_ptr<GroupDecoder> inner, TokenIds prompt, int32_t num_top,
                        int32_t vocab_size, int32_t piece_tokens, int32_t tokens_per_row = 1);

  // What the group's one row has at the start: the first piece of the prompt, of which all logits
  // are wanted. (Other groups start with the whole prompt and want the last token's logits.)
  TokenIds first_piece() const;

  // Also a share of a step's logits, as ScoreDecoder's, which the pieces must never wait for.
  int32_t max_rows() const override { return max_rows_; }
  bool generates() const override { return !reads_prompt() && DecoderDecorator::generates(); }
  int32_t given_length() const override {
    return std::max(static_cast<int32_t>(prompt_.size()), DecoderDecorator::given_length());
  }
  std::span<const RowRequest> Requests() override;
  std::optional<BeamRequest> Beams() override {
    return reads_prompt() ? std::nullopt : inner().Beams();
  }
  std::span<const Continuation> Advance(std::span<const RowResult> results) override;
  std::optional<std::span<const AssumedRow>> Assume() override {
    return reads_prompt() ? std::nullopt : inner().Assume();
  }
  std::vector<PositionLogprobs> TakePromptLogprobs() override { return std::move(logprobs_); }

 private:
  bool reads_prompt() const { return begin_ < static_cast<int32_t>(prompt_.size()); }
  // The piece begins at prompt token `begin`.
  void StartPiece(int32_t begin);
  void WriteRequests();
  void Record(const RowResult& result, int32_t token);

  const TokenIds prompt_;
  const int32_t num_top_;
  const int32_t num_candidates_;
  const int32_t piece_tokens_;
  int32_t max_rows_ = 0;
  int32_t begin_ = 0;  // prompt tokens begin_ .. end_ - 1 are in the current step
  int32_t end_ = 0;
  std::vector<LogitsEdits> edits_;
  std::vector<RowRequest> requests_;
  std::vector<Continuation> next_piece_;
  std::vector<PositionLogprobs> logprobs_;
};

}  // namespace beamline
