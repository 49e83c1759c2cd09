// The largest steps that serving may compute, run once while a model is loaded: a device that
// divides a fixed memory gives its workspaces their size then, and a model that does not fit says
// so before it is asked anything.
#pragma once

#include "absl/status/status.h"
#include "engine/transformer/transformer.h"
#include "kernels/backend.h"

namespace beamline {

// Overwrites the cache. RESOURCE_EXHAUSTED and the device's other faults. `limits`: the
// transformer's; `backend`: what it computes on.
absl::Status RunLargestSteps(const StepLimits& limits, Transformer& transformer, Backend& backend);

}  // namespace beamline
