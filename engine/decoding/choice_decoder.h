// Reports how likely each of two tokens is after a prompt. Generates nothing: one row, one step,
// two logits.
#pragma once

#include <span>
#include <vector>

#include "engine/decoding/group_decoder.h"

namespace beamline {

class ChoiceDecoder final : public GroupDecoder {
 public:
  // REQUIRES: two different token ids.
  ChoiceDecoder(int32_t first, int32_t second);

  int32_t max_rows() const override { return 1; }
  std::span<const RowRequest> Requests() override { return requests_; }
  std::span<const Continuation> Advance(std::span<const RowResult> results) override;
  void Stop(FinishReason reason) override;
  bool finished() const override { return requests_.empty(); }
  // Always 0: nothing is chosen.
  int32_t num_generated_tokens() const override { return 0; }
  std::vector<GenerateDelta> TakeDeltas() override { return {}; }
  // One sequence with both ids, in the order of the constructor, and the log-probability of each as
  // the token after the prompt.
  std::vector<GeneratedSequence> TakeSequences() override;

 private:
  GeneratedSequence choice_;
  LogitsEdits edits_;
  std::vector<RowRequest> requests_;  // empty when finished
};

}  // namespace beamline
