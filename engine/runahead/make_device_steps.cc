#include "engine/runahead/make_device_steps.h"

#include <utility>

#include "engine/runahead/ranked_step.h"
#include "engine/runahead/transformer_step.h"

namespace beamline {

std::array<std::unique_ptr<DeviceStep>, 2> MakeDeviceSteps(Transformer& transformer,
                                                           Backend& backend) {
  RankedTransformer* const ranked = transformer.ranked();
  if (ranked == nullptr) {
    return {std::make_unique<TransformerStep>(transformer, backend),
            std::make_unique<TransformerStep>(transformer, backend)};
  }
  auto one = std::make_unique<RankedStep>(*ranked);
  auto other = std::make_unique<RankedStep>(*ranked);
  one->ReadWordsOf(*other);
  other->ReadWordsOf(*one);
  return {std::move(one), std::move(other)};
}

}  // namespace beamline
