// The steps that fit a transformer: of one rank or of several.
#pragma once

#include <array>
#include <memory>

#include "engine/runahead/device_step.h"
#include "engine/transformer/transformer.h"

namespace beamline {

// Two, each of which may take its tokens out of the other's results. The transformer and its
// backend outlive them.
std::array<std::unique_ptr<DeviceStep>, 2> MakeDeviceSteps(Transformer& transformer,
                                                           Backend& backend);

}  // namespace beamline
