// A step that goes through the stages of a model: each computes its layers of it when it is done
// with those of the step before, so that several steps are between them. The last one chooses.
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

// What a step's logits rows ask for, kept while they are computed, whatever becomes of the groups.
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
  // The transformer outlives the step, which followers know by its number.
  StagedStep(RankedTransformer& transformer, int32_t number);
  // Waits for the stages, which work on what the step holds.
  ~StagedStep() override { ranks_.Drain(); }

  // Returns at once on every device. REQUIRES: no edits, as nothing is taken out of the results of
  // a step that has not landed; what was started last has been waited for.
  absl::Status Start(const StepBuilder& built, const DeviceEdits& edits,
                     std::span<const RowRequest* const> requests,
                     std::span<const BeamSearch> searches) override;
  // REQUIRES: devices that do not record steps. Others are for one thread at a time, their rank's.
  bool Done() override;
  // A rank's error is the group's, for good: the others may have gone on without it.
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
  // Takes the pinned memory that the results need. The driver may wait for all devices to give it,
  // and one of them for a rank that has not come: so what is under way ends first.
  absl::Status Prepare();
  const TransformerStep& first() const { return *choosing_.front(); }

  RankedTransformer& transformer_;
  RankGroup& ranks_;
  const int32_t number_;
  std::vector<std::unique_ptr<TransformerStep>> choosing_;  // of each rank of the last stage
  StepBuilder built_;
  KeptRequests kept_;
  uint64_t call_ = 0;
  bool started_ = false;
};

}  // namespace beamline
