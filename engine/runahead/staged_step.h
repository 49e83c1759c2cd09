// A step that passes through the stages of a model. A stage computes its layers when it has
// finished the previous step, so several steps are in the stages at once. The last stage selects
// tokens.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/decoding/group_decoder.h"
#include "engine/runahead/device_step.h"
#include "engine/runahead/transformer_step.h"
#include "engine/transformer/ranked_transformer.h"

namespace beamline {

// A copy of the logits requests of a step in progress, independent of the groups' lifetime.
class KeptRequests {
 public:
  void Keep(std::span<const RowRequest* const> requests, std::span<const BeamSearch> searches);
  std::span<const RowRequest* const> requests() const { return pointers_; }
  std::span<const BeamSearch> searches() const { return searches_; }

 private:
  std::vector<RowRequest> requests_;
  std::vector<LogitsEdits> edits_;
  std::vector<const RowRequest*> pointers_;
  std::vector<BeamSearch> searches_;
  std::vector<std::vector<float>> scores_;
  std::vector<std::vector<int32_t>> end_ids_;
};

class StagedStep final : public DeviceStep {
 public:
  // The transformer must outlive the step. Followers identify the step by its number.
  StagedStep(RankedTransformer& transformer, int32_t number);
  // Waits for the stages, which use the step's data.
  ~StagedStep() override { ranks_.Drain(); }

  // Returns at once on every device. REQUIRES: no edits (nothing is taken from the results of an
  // unlanded step); the last started step was waited for.
  absl::Status Start(const StepBuilder& built, const DeviceEdits& edits,
                     std::span<const RowRequest* const> requests,
                     std::span<const BeamSearch> searches) override;
  // REQUIRES: devices without CUDA graphs. Others may be used only by their rank's thread.
  bool Done() override;
  // An error of one rank is permanent for the whole group: other ranks may have continued without
  // it.
  absl::Status Wait() override;
  const int32_t* words() const override { return first().words(); }
  int32_t TokenWord(int32_t request, int32_t draw) const override {
    return first().TokenWord(request, draw);
  }
  BeamWords SearchWords(int32_t search) const override { return first().SearchWords(search); }
  std::span<const RowResult> Results(size_t first, size_t count) override {
    return choosing_.front()->Results(first, count);
  }
  std::span<const int32_t> HostWords(int32_t word, size_t count) const override {
    return first().HostWords(word, count);
  }

 private:
  // Allocates the pinned memory for the results. The driver may wait for all devices, and a device
  // may wait for a rank that has not arrived. So the steps in progress are finished first.
  absl::Status Prepare();
  const TransformerStep& first() const { return *choosing_.front(); }

  RankedTransformer& transformer_;
  RankGroup& ranks_;
  const int32_t number_;
  std::vector<std::unique_ptr<TransformerStep>> choosing_;  // one per rank of the last stage
  StepBuilder built_;
  KeptRequests kept_;
  uint64_t call_ = 0;
  bool started_ = false;
};

}  // namespace beamline
