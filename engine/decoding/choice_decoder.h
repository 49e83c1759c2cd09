// Tells how likely each of two tokens is behind a prompt, and generates nothing: one row, one step,
// and of its logits two numbers.
#pragma once

#include <span>
#include <vector>

#include "engine/decoding/group_decoder.h"

namespace beamline {

class ChoiceDecoder final : public GroupDecoder {
 public:
  // REQUIRES: two different ids of the vocabulary.
  ChoiceDecoder(int32_t first, int32_t second);

  int32_t max_rows() const override { return 1; }
  std::span<const RowRequest> Requests() override { return requests_; }
  std::span<const Continuation> Advance(std::span<const RowResult> results) override;
  void Stop(FinishReason reason) override;
  bool finished() const override { return requests_.empty(); }
  // None: nothing is chosen.
  int32_t num_generated_tokens() const override { return 0; }
  std::vector<GenerateDelta> TakeDeltas() override { return {}; }
  // One, of both ids in the order of the constructor, with the log-probability of each as the token
  // behind the prompt.
  std::vector<GeneratedSequence> TakeSequences() override;

 private:
  GeneratedSequence choice_;
  LogitsEdits edits_;
  std::vector<RowRequest> requests_;  // empty when it has finished
};

}  // namespace beamline
