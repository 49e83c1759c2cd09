// A decoder that wraps another one and changes its requests or results. Everything that it does not
// override is forwarded to the inner decoder.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "engine/decoding/group_decoder.h"

namespace beamline {

class DecoderDecorator : public GroupDecoder {
 public:
  int32_t max_rows() const override { return inner_->max_rows(); }
  bool generates() const override { return inner_->generates(); }
  int32_t given_length() const override { return inner_->given_length(); }
  std::span<const RowRequest> Requests() override { return inner_->Requests(); }
  std::optional<BeamRequest> Beams() override { return inner_->Beams(); }
  std::span<const Continuation> Advance(std::span<const RowResult> results) override {
    return inner_->Advance(results);
  }
  std::optional<std::span<const AssumedRow>> Assume() override { return inner_->Assume(); }
  void Stop(FinishReason reason) override { inner_->Stop(reason); }
  bool finished() const override { return inner_->finished(); }
  int32_t num_generated_tokens() const override { return inner_->num_generated_tokens(); }
  int64_t num_computed_tokens() const override { return inner_->num_computed_tokens(); }
  std::vector<GenerateDelta> TakeDeltas() override { return inner_->TakeDeltas(); }
  std::vector<GeneratedSequence> TakeSequences() override { return inner_->TakeSequences(); }
  std::vector<PositionLogprobs> TakePromptLogprobs() override {
    return inner_->TakePromptLogprobs();
  }

 protected:
  explicit DecoderDecorator(std::unique_ptr<GroupDecoder> inner) : inner_(std::move(inner)) {}
  GroupDecoder& inner() { return *inner_; }

 private:
  const std::unique_ptr<GroupDecoder> inner_;
};

}  // namespace beamline
