// The steps that fit a transformer: of one rank, of several or of stages.
#pragma once

#include <memory>
#include <vector>

#include "engine/runahead/device_step.h"
#include "engine/transformer/transformer.h"

namespace beamline {

// Two, each of which may take its tokens out of the other's results; of stages as many as these,
// each of which takes nothing out of the others'. The transformer and its backend outlive them.
std::vector<std::unique_ptr<DeviceStep>> MakeDeviceSteps(Transformer& transformer,
                                                         Backend& backend);

}  // namespace beamline
