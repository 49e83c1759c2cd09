// Creates the device steps for a transformer with one rank, several ranks, or stages.
#pragma once

#include <memory>
#include <vector>

#include "engine/runahead/device_step.h"
#include "engine/transformer/transformer.h"

namespace beamline {

// Without stages: two steps, each of which may take tokens from the other's results. With stages:
// one step per stage, which take nothing from each other. The transformer and its backend must
// outlive them.
std::vector<std::unique_ptr<DeviceStep>> MakeDeviceSteps(Transformer& transformer,
                                                         Backend& backend);

}  // namespace beamline
