// Greedy decoding of one sequence with n-gram speculation. Each step computes draft tokens
// (prompt_lookup.h) after the last known token and keeps those that greedy decoding would have
// chosen. The answer equals that of IndependentDecoder, which processes the rows one by one as if
// each were a step; draft tokens only save steps.
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
  // tokenizer and speculation must outlive the decoder. REQUIRES: kind is kGreedy, one sequence.
  PromptLookupDecoder(const ResolvedDecoding& decoding, std::span<const int32_t> prompt,
                      const Tokenizer& tokenizer, bool wants_deltas, Speculation& speculation);

  int32_t max_rows() const override { return 1; }
  std::span<const RowRequest> Requests() override { return requests_; }
  std::span<const Continuation> Advance(std::span<const RowResult> results) override;
  // Only if there is no logits row left for draft tokens, which need the results of the step.
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
  std::optional<Speculation::Participant> participant_;  // exists from the first to the last step
  IndependentDecoder plain_;
  const std::shared_ptr<const ShapingRules> rules_;
  LogitsShaper shaper_;  // of the tokens so far, as in plain_
  PromptLookup lookup_;
  std::array<GuessLength, PromptLookup::kLongestNgram> lengths_;  // by n-gram length of the match

  // State of the step in progress.
  TokenIds proposals_;
  int32_t matched_ngram_ = 0;
  std::vector<LogitsShaper> shapers_;  // after each proposal, as if it and those before it were
                                       // accepted
  std::vector<RowRequest> requests_;
  std::vector<Continuation> next_;  // of the last step
};

}  // namespace beamline
