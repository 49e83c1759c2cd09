#include "engine/runahead/make_device_steps.h"

#include <utility>

#include "engine/runahead/ranked_step.h"
#include "engine/runahead/staged_step.h"
#include "engine/runahead/transformer_step.h"

namespace beamline {

std::vector<std::unique_ptr<DeviceStep>> MakeDeviceSteps(Transformer& transformer,
                                                         Backend& backend) {
  std::vector<std::unique_ptr<DeviceStep>> steps;
  RankedTransformer* const ranked = transformer.ranked();
  if (ranked == nullptr) {
    for (int i = 0; i < 2; ++i) {
      steps.push_back(std::make_unique<TransformerStep>(transformer, backend));
    }
  } else if (ranked->ranks().num_stages() > 1) {
    for (int stage = 0; stage < ranked->ranks().num_stages(); ++stage) {
      steps.push_back(std::make_unique<StagedStep>(*ranked, stage));
    }
  } else {
    auto one = std::make_unique<RankedStep>(*ranked, 0);
    auto other = std::make_unique<RankedStep>(*ranked, 1);
    one->ReadWordsOf(*other);
    other->ReadWordsOf(*one);
    steps.push_back(std::move(one));
    steps.push_back(std::move(other));
  }
  return steps;
}

}  // namespace beamline
