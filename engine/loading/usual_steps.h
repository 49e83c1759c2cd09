// The steps that serving computes most, run once while a model is loaded. A GPU measures which
// algorithms suit a new size, loads its kernels and records its graphs the first time that it meets
// them; so that is not while requests wait.
#pragma once

#include <atomic>
#include <chrono>

#include "absl/status/statusor.h"
#include "engine/api/engine.h"
#include "engine/transformer/transformer.h"
#include "kernels/backend.h"

namespace beamline {

// Short inputs alone, decode steps of every size and of the shorter contexts, larger prefills and
// encoder batches; no new step begins once `time` is over or `stop`, which may be null, is set.
// Writes to the cache, which no request reads before it has written there itself. `limits`: the
// transformer's; `backend`: what it computes on. Errors are the device's faults.
absl::StatusOr<WarmUpReport> RunUsualSteps(const StepLimits& limits, Transformer& transformer,
                                           Backend& backend, std::chrono::nanoseconds time,
                                           const std::atomic<bool>* stop = nullptr);

}  // namespace beamline
