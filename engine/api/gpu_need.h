// Estimates the GPU memory that a set of models needs, before any of them is loaded.
#pragma once

#include <cstdint>
#include <optional>

#include "engine/api/engine.h"

namespace beamline {

// A value for gpu_memory.bytes with which all models of the options fit on their GPUs: the need of
// the fullest GPU, plus a reserve for memory that no plan counts. nullopt when the need is unknown:
// a generator or translator without cache_bytes, a model with several ranks, a folder that cannot
// be read, or no usable GPU. Reads the folders but no weights. Does not include models that are
// loaded later.
std::optional<int64_t> NeededGpuBytes(const EngineOptions& options);

}  // namespace beamline
