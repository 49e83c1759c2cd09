// Greedy decoding of one sequence, several tokens a step when the text repeats itself: each step
// computes guessed tokens (prompt_lookup.h) behind the last known one, and keeps those that greedy
// decoding would have chosen. The answer is that of IndependentDecoder, which sees one row after
// the other as if each had been a step of its own; guesses only save steps.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/decoding/group_decoder.h"
#include "engine/decoding/independent_decoder.h"
#include "engine/decoding/logits_shaper.h"
#include "engine/decoding/prompt_lookup.h"
#include "engine/decoding/speculation.h"

namespace beamline {

class PromptLookupDecoder final : public GroupDecoder {
 public:
  // tokenizer and speculation outlive the decoder. REQUIRES: kind is kGreedy, one sequence.
  PromptLookupDecoder(const ResolvedDecoding& decoding, std::span<const int32_t> prompt,
                      const Tokenizer& tokenizer, bool wants_deltas, Speculation& speculation);

  int32_t max_rows() const override { return 1; }
  std::span<const RowRequest> Requests() override { return requests_; }
  std::span<const Continuation> Advance(std::span<const RowResult> results) override;
  // Only while the step has no row to spare for guesses: those need the results.
  std::optional<std::span<const AssumedRow>> Assume() override;
  void Stop(FinishReason reason) override;
  bool finished() const override { return plain_.finished(); }
  int32_t num_generated_tokens() const override { return plain_.num_generated_tokens(); }
  std::vector<GenerateDelta> TakeDeltas() override { return plain_.TakeDeltas(); }
  std::vector<GeneratedSequence> TakeSequences() override { return plain_.TakeSequences(); }

 private:
  void Record(int32_t accepted);
  void Propose();
  void WriteRequests();

  const int32_t prompt_tokens_;
  const int32_t max_new_tokens_;
  Speculation& speculation_;
  std::optional<Speculation::Participant> participant_;  // from the first to the last step
  IndependentDecoder plain_;
  const std::shared_ptr<const ShapingRules> rules_;
  LogitsShaper shaper_;  // of the tokens so far, as plain_ has it
  PromptLookup lookup_;
  std::array<GuessLength, PromptLookup::kLongestNgram> lengths_;  // by how many tokens agreed

  // Of the step being computed.
  TokenIds proposals_;
  int32_t matched_ngram_ = 0;
  std::vector<LogitsShaper> shapers_;  // behind each proposal, as if those up to it were right
  std::vector<RowRequest> requests_;
  std::vector<Continuation> next_;  // of the last step
};

}  // namespace beamline
