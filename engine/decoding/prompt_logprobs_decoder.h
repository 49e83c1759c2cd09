// Wraps the decoder of a request that wants prompt log-probabilities. Requests the logits of every
// prompt token, in chunks, before it passes the last one to the inner decoder.
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
  // num_top: most likely tokens reported per position, 0 .. 20. piece_tokens: maximum prompt tokens
  // per step, at least 1. tokens_per_row: as in ScoreLimits. REQUIRES: a prompt of at least one
  // token.
  PromptLogprobsDecoder(std::unique_ptr<GroupDecoder> inner, TokenIds prompt, int32_t num_top,
                        int32_t vocab_size, int32_t piece_tokens, int32_t tokens_per_row = 1);

  // The tokens of the group's one row at the start: the first chunk of the prompt, with logits
  // after each token. (Other groups start with the whole prompt and need only its last logits.)
  TokenIds first_piece() const;

  // As in ScoreDecoder, also the group's share of a step's logits, so that its chunks never wait.
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
  // Starts the chunk whose first prompt token is `begin`.
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
