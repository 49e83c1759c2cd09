// How much of a GPU a set of models needs, where that is known before any of them is loaded.
#pragma once

#include <cstdint>
#include <optional>

#include "engine/api/engine.h"

namespace beamline {

// Bytes that gpu_memory.bytes may be, so that all models of the options fit on their GPUs: what the
// GPU with the most needs, with room for what no plan counts. nullopt where that is not known: a
// generator or translator without cache_bytes, a model on several ranks, a folder that cannot be
// read, or no GPU that a model may use. Reads the folders, but no weights. Models that are loaded
// later are not in it.
std::optional<int64_t> NeededGpuBytes(const EngineOptions& options);

}  // namespace beamline
