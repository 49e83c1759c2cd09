// What a model takes of its device's memory, known before any of it is taken.
#pragma once

#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/transformer/model_types.h"
#include "engine/transformer/spec.h"
#include "engine/transformer/transformer.h"

namespace beamline {

// Bytes.
struct MemoryPlan {
  int64_t weights = 0;
  int64_t cache = 0;
  int64_t activations = 0;  // buffers of the steps
  // What operators take for themselves, about; 0 where a device's memory is the host's.
  int64_t workspaces = 0;
  int64_t total() const { return weights + cache + activations + workspaces; }
};

// Of a transformer of these types with activations of `activation_dtype`, on all of its
// ranks together: so many to each of so many stages. What packing pads is not in it, nor are
// workspaces.
MemoryPlan PlanMemory(const TransformerSpec& spec, const Checkpoint& checkpoint,
                      const ModelTypes& types, DType activation_dtype, const StepLimits& limits,
                      int num_ranks = 1, int num_stages = 1);

// Of a GPU, about: what the largest step of a model takes for itself (kernels/cuda: a product that
// is finished apart, the split attention, the algorithms' own), on all ranks together.
int64_t WorkspaceBytes(const TransformerSpec& spec, DType activation_dtype,
                       const StepLimits& limits, int num_ranks = 1, int num_stages = 1);

// What this process may still take of the host's memory.
int64_t FreeHostBytes();

// RESOURCE_EXHAUSTED naming what is needed and what is free, unless it fits. `device`: "cpu".
absl::Status CheckFits(const MemoryPlan& plan, int64_t free_bytes, std::string_view device);

}  // namespace beamline
