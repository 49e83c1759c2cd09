// Steps that a model computes while it is loaded, so that serving meets none of them for the first
// time: the largest, which show how much memory steps need, and the usual ones.
#pragma once

#include <atomic>
#include <chrono>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/api/model.h"
#include "engine/transformer/step_limits.h"
#include "engine/transformer/transformer.h"
#include "kernels/backend.h"

namespace beamline {

// Both overwrite the cache, which no request reads before it has written there itself, and hold
// nothing afterwards. `limits`: the transformer's; `backend`: what it computes on. Errors are the
// device's faults, RESOURCE_EXHAUSTED among them.

// The largest steps that the limits allow: a device that divides a fixed memory gives its
// workspaces their size then, and a model that does not fit says so before it is asked anything.
absl::Status RehearseLargest(const StepLimits& limits, Transformer& transformer, Backend& backend);

// The steps that serving computes most: short inputs alone, decode steps of every size and of the
// shorter contexts, larger prefills and encoder batches. A GPU measures which algorithms suit a new
// size, loads its kernels and records its graphs the first times that it meets them; so that is not
// while requests wait. No new step begins once `time` is over or `stop`, which may be null, is set.
// Before them a cache on the host gets its pages.
absl::StatusOr<WarmUpReport> RehearseUsual(const StepLimits& limits, Transformer& transformer,
                                           Backend& backend, std::chrono::nanoseconds time,
                                           const std::atomic<bool>* stop = nullptr);

}  // namespace beamline
