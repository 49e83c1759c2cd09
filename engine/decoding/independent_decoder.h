// Greedy decoding and sampling: sequences that share a prompt and nothing else. The first step has
// the prompt's one row, from which every sequence draws; from then on each has its own.
#pragma once

#include <cstdint>
#include <memory>
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
  // tokenizer outlives the decoder. REQUIRES: kind is kGreedy or kSampling.
  IndependentDecoder(const ResolvedDecoding& decoding, std::span<const int32_t> prompt,
                     const Tokenizer& tokenizer, bool wants_deltas);

  int32_t max_rows() const override { return decoding_.num_sequences; }
  std::span<const RowRequest> Requests() override { return requests_; }
  std::vector<Continuation> Advance(std::span<const RowResult> results) override;
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
  };

  void AppendToken(Sequence& sequence, const RowResult& row, const TokenChoice& choice);
  // Why the sequence ends with its last token; kNone: it goes on. Takes the token into the text.
  FinishReason FinishAfter(Sequence& sequence, int32_t token);
  void Finish(Sequence& sequence, FinishReason reason);
  void TakeText(Sequence& sequence);
  void WriteRequests();
  void AddRequest(int32_t row, int32_t first_sequence, int32_t num_draws);

  const ResolvedDecoding decoding_;
  const bool wants_deltas_;
  const StopStrings stop_strings_;
  std::vector<Sequence> sequences_;
  bool first_step_ = true;
  std::vector<int32_t> live_;       // sequences, in row order (first step: all, on one row)
  std::vector<int32_t> next_live_;  // of the step being made
  std::vector<RowRequest> requests_;
  int32_t num_generated_tokens_ = 0;
};

}  // namespace beamline
