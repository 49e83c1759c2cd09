// Steps of sequences that nobody asked for. They are packed, computed and chosen of as those of
// requests are; only which sequences there are is decided here.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "engine/decoding/group_decoder.h"
#include "engine/runahead/device_step.h"
#include "engine/scheduling/encode_step_builder.h"
#include "engine/scheduling/group_cache.h"
#include "engine/scheduling/step_builder.h"
#include "engine/transformer/step_limits.h"
#include "engine/transformer/transformer.h"
#include "kernels/backend.h"

namespace beamline {

// Each call computes one step, waits for it and returns the device's fault. Every token is 0. The
// sequences are as long as can be, and no more than the limits allow: where these have no room for
// as many as are asked for, the step is smaller, or none. What they write to the cache is nobody's
// to read afterwards.
class SyntheticSteps {
 public:
  // num_candidates: best tokens that each logits row is asked for, besides a draw.
  // The transformer and the backend outlive the object.
  SyntheticSteps(const StepLimits& limits, int32_t num_candidates, Transformer& transformer,
                 Backend& backend);

  // Inputs of so many tokens in all. REQUIRES: an encoder.
  absl::Status Encode(int32_t num_tokens);
  // The largest pieces of the longest input. REQUIRES: the transformer has a long_input().
  absl::Status EncodeLong();
  // Prompts of so many tokens in all, and the logits of the last `num_logits` of them in all, of
  // each prompt at least one. A decoder with an encoder reads the first of the inputs encoded last.
  // REQUIRES: a decoder; Encode was called where there is an encoder.
  absl::Status Prefill(int32_t num_tokens, int32_t num_logits);
  // Rows of one token each, of which one has a table of `num_blocks` blocks. REQUIRES: as Prefill.
  absl::Status Decode(int32_t num_rows, int32_t num_blocks);

  // Most rows of such a step.
  int32_t MostRows(int32_t num_blocks) const;

 private:
  std::vector<int32_t> Lengths(int32_t num_tokens, int32_t longest) const;
  absl::Status EncodeAlone(std::span<const int32_t> lengths);
  absl::Status EncodeMemory(std::span<const int32_t> lengths);
  // The group whose rows come next, that of the first input; the others are let go.
  Group& Reader();
  absl::Status ComputeRows(Group& group);
  absl::Status Compute(const StepPlan& plan);

  const StepLimits limits_;
  Transformer& transformer_;
  const TransformerSpec& spec_;
  Backend& backend_;
  const RowRequest request_;  // of every logits row
  GroupCache cache_;
  std::vector<std::unique_ptr<Group>> groups_;
  StepBuilder builder_;
  const std::vector<std::unique_ptr<DeviceStep>> steps_;  // of which one is used
};

}  // namespace beamline
