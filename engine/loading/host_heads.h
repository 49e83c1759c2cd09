// What the host computes behind an encoder: a classifier's head, Dense modules, a head of masks.
#pragma once

#include "absl/status/status.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/loading/loaded_model.h"
#include "engine/transformer/model_types.h"

namespace beamline {

// Whether the model has a head of masks and its tokenizer a mask.
bool FillsMasks(const LoadedModel& model);

// Of that head: float32 of weights as they are stored where the model has them so, else float32.
ModelTypes MaskHeadTypes(const ModelTypes& of_model);

// Makes those heads of `model` that its description asks for. Errors name the tensor.
absl::Status LoadHostHeads(const Checkpoint& checkpoint, const LoadContext& context,
                           LoadedModel& model);

}  // namespace beamline
