// The limits of a model on its device: the steps', the cache's and the sequences', by the memory
// that there is.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/loading/loaded_model.h"
#include "engine/loading/memory_plan.h"

namespace beamline {

// Tokens of the longest input.
int32_t MaxInputTokens(const ModelDescription& description, const Tokenizer& tokenizer);

// What the model takes with these limits. REQUIRES: it has its backend.
MemoryPlan PlanOf(const LoadedModel& model, const Checkpoint& checkpoint, const StepLimits& limits);

// Sets the model's limits, and describes it anew with shorter sequences where the cache cannot hold
// one of the checkpoint's length. What is not as the options say goes to info.limit_notes.
// REQUIRES: the model has its backend.
absl::Status SetLimits(const Checkpoint& checkpoint, const LoadContext& context,
                       LoadedModel& model);

// What a model will take of a GPU, of all of its ranks together, before there is a backend: the
// plan that PlanOf makes with the limits of SetLimits. REQUIRES: ReadFolder has described `model`;
// it has cache_bytes, or no decoder.
absl::StatusOr<MemoryPlan> PlanOnGpu(const Checkpoint& checkpoint, LoadedModel& model);

}  // namespace beamline
