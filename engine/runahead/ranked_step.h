// A step that several ranks compute together. All ranks, including those in other processes, get
// the same inputs; the results are those of the first rank.
#pragma once

#include <memory>
#include <vector>

#include "engine/runahead/device_step.h"
#include "engine/runahead/transformer_step.h"
#include "engine/transformer/ranked_transformer.h"

namespace beamline {

class RankedStep final : public DeviceStep {
 public:
  // The transformer must outlive the step. Followers identify the step by its number.
  RankedStep(RankedTransformer& transformer, int32_t number);
  // Sets the step whose results may provide inputs of this one; each rank uses its own words.
  void ReadWordsOf(const RankedStep& other) { other_ = &other; }

  absl::Status Start(const StepBuilder& built, const DeviceEdits& edits,
                     std::span<const RowRequest* const> requests,
                     std::span<const BeamSearch> searches) override;
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
    return steps_.front()->Results(first, count);
  }
  std::span<const int32_t> HostWords(int32_t word, size_t count) const override {
    return first().HostWords(word, count);
  }

 private:
  const TransformerStep& first() const { return *steps_.front(); }
  // Allocates pinned memory. This is allowed only when no device is in a collective that another
  // rank has not reached, because the driver may wait for all devices.
  absl::Status Prepare(std::span<const RowRequest* const> requests,
                       std::span<const BeamSearch> searches);

  RankGroup& ranks_;
  const int32_t number_;
  std::vector<std::unique_ptr<TransformerStep>> steps_;  // one per rank
  const RankedStep* other_ = nullptr;
};

}  // namespace beamline
