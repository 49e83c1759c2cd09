// Greedy decoding and sampling: sequences that share only the prompt. The first step has one row,
// the prompt's, from which every sequence samples; afterwards each sequence has its own row.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/decoding/group_decoder.h"
#include "engine/decoding/logits_shaper.h"
#include "engine/decoding/sequence_text.h"
#include "engine/decoding/token_logprobs.h"

namespace beamline {

class IndependentDecoder final : public GroupDecoder {
 public:
  // The tokenizer must outlive the decoder. REQUIRES: kind is kGreedy or kSampling.
  IndependentDecoder(const ResolvedDecoding& decoding, std::span<const int32_t> prompt,
                     const Tokenizer& tokenizer, bool wants_deltas);

  int32_t max_rows() const override { return decoding_.num_sequences; }
  std::span<const RowRequest> Requests() override { return requests_; }
  std::span<const Continuation> Advance(std::span<const RowResult> results) override;
  std::optional<std::span<const AssumedRow>> Assume() override;
  void Stop(FinishReason reason) override;
  bool finished() const override { return live_.empty(); }
  int32_t num_generated_tokens() const override { return num_generated_tokens_; }
  std::vector<GenerateDelta> TakeDeltas() override;
  std::vector<GeneratedSequence> TakeSequences() override;

 private:
  struct Sequence {
    GeneratedSequence result;
    LogitsShaper shaper;
    SequenceText text;
    GenerateDelta delta;
    // The shaper after the unknown next token, while its row is assumed.
    std::optional<LogitsShaper> next_shaper;
    int32_t assumed = -1;  // index of the assumed row
  };

  void AppendToken(Sequence& sequence, const RowResult& row, const TokenChoice& choice);
  // Why the sequence ends with its last token; kNone: it continues. Adds the token to the text.
  FinishReason FinishAfter(Sequence& sequence, int32_t token);
  void Finish(Sequence& sequence, FinishReason reason);
  void TakeText(Sequence& sequence);
  void WriteRequests();
  // Covers `num_draws` sequences from `first_sequence` on, whose next token has the number
  // `position`.
  void WriteRequest(const LogitsShaper& shaper, int32_t first_sequence, int32_t num_draws,
                    uint32_t position, RowRequest& request) const;
  void AppendToShaper(Sequence& sequence);

  const ResolvedDecoding decoding_;
  const bool wants_deltas_;
  const StopStrings stop_strings_;
  const std::shared_ptr<const ShapingRules> rules_;
  std::vector<Sequence> sequences_;
  bool first_step_ = true;
  std::vector<int32_t> live_;       // sequences in row order (first step: all, on one row)
  std::vector<int32_t> next_live_;  // of the next step
  std::vector<RowRequest> requests_;
  std::vector<AssumedRow> assumed_;
  std::vector<RowRequest> assumed_requests_;  // one per live row
  std::vector<Continuation> continuations_;   // of the last step
  int32_t num_generated_tokens_ = 0;
};

}  // namespace beamline
