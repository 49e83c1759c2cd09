// A step that several ranks compute together: the same inputs to all of them, those of other
// processes too; the results of the first.
#pragma once

#include <memory>
#include <vector>

#include "engine/runahead/device_step.h"
#include "engine/runahead/transformer_step.h"
#include "engine/transformer/ranked_transformer.h"

namespace beamline {

class RankedStep final : public DeviceStep {
 public:
  // The transformer outlives the step, which followers know by its number.
  RankedStep(RankedTransformer& transformer, int32_t number);
  // The step whose results the inputs of this one may be taken from, out of each rank's own words.
  void ReadWordsOf(const RankedStep& other) { other_ = &other; }

  absl::Status Start(const StepBuilder& built, const DeviceEdits& edits,
                     std::span<const RowRequest* const> requests,
                     std::span<const BeamSearch> searches) override;
  bool Done() override;
  // A rank's error is the group's, for good: the others may have gone on without it.
  absl::Status Wait() override;
  const int32_t* words() const override { return first().words(); }
  int32_t TokenWord(int32_t request, int32_t draw) const override {
    return first().TokenWord(request, draw);
  }
  BeamWords SearchWords(int32_t search) const override { return first().SearchWords(search); }
  std::span<const RowResult> Results(size_t first, size_t count) override {
    return steps_.front()->Results(first, count);
  }
  std::span<const int32_t> HostWords(int32_t word, size_t count) const override {
    return first().HostWords(word, count);
  }

 private:
  const TransformerStep& first() const { return *steps_.front(); }
  // Pinned memory may be taken from the driver only when no device is in a collective that another
  // rank has not come to: the driver may wait for all devices.
  absl::Status Prepare(std::span<const RowRequest* const> requests,
                       std::span<const BeamSearch> searches);

  RankGroup& ranks_;
  const int32_t number_;
  std::vector<std::unique_ptr<TransformerStep>> steps_;  // of each rank
  const RankedStep* other_ = nullptr;
};

}  // namespace beamline
