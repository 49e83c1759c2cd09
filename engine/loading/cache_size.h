// How much of its device's memory a model's key/value cache may take.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "engine/api/engine.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/loading/memory_plan.h"
#include "engine/transformer/model_types.h"

namespace beamline {

// What a checkpoint's tensors take in memory: matrices in the types of weights, vectors in the one
// of products.
int64_t WeightBytes(const Checkpoint& checkpoint, const ModelTypes& types);

// What one of its matrices takes so; 0: the checkpoint has none of this name.
int64_t MatrixBytes(const Checkpoint& checkpoint, const ModelTypes& types, const std::string& name);

// What the models that are still to be loaded on a device need there, the one at hand first; of a
// model on several ranks, on the devices of all of them together.
struct MemoryDemand {
  int64_t weight_bytes = 0;       // of all of them
  int64_t fixed_cache_bytes = 0;  // of those whose cache has a size
  int num_open_caches = 0;        // caches that nobody sized
};

// Of `options` and of those of `later` that name the same device. A folder of `later` that cannot
// be read counts as nothing: its own turn to load will tell.
MemoryDemand MemoryDemandOf(const ModelOptions& options, const Checkpoint& checkpoint,
                            std::span<const ModelOptions> later);

// The most that a cache gets which nobody sized. On a device that says how much memory is free:
// what the weights and the caches of a given size leave is divided evenly among the other caches,
// with one more share for buffers and workspaces. Elsewhere (nullopt) a share of the host's.
int64_t DefaultCacheBytes(std::optional<size_t> free_bytes, const MemoryDemand& demand);

// The most that such a cache may take to hold one sequence of full length: what a device has left
// beside the weights of all models and the buffers, workspaces and padding of this model's `plan`,
// divided evenly among the caches without a configured size. Of the host's memory half of that.
int64_t MostCacheBytes(std::optional<size_t> free_bytes, const MemoryDemand& demand,
                       const MemoryPlan& plan);

}  // namespace beamline
