// The types of a model's numbers: what its settings say, and where they leave it open what the
// checkpoint has (docs/decisions/0071-types-of-the-checkpoint.md).
#pragma once

#include <optional>
#include <string>

#include "engine/api/model.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/transformer/model_types.h"
#include "kernels/compute_device.h"

namespace beamline {

// `weights`, `compute` and `cache`, each where it is set; else dtype, and where that is open too:
// - on a GPU the other one of weights and compute that is set, else OwnType of the checkpoint;
// - on a CPU products in float32 of weights as they are stored, which is exact.
// A cache that is not set has the type of activations. A word that is no type counts as none
// (model_options_check.h refuses it).
ModelTypes TypesOf(const ModelOptions& options, const Checkpoint& checkpoint, bool on_gpu);

// What products will multiply, as far as the settings alone tell.
std::optional<DType> ComputeTypeOf(const ModelOptions& options);

// The type that most of the stored floating-point numbers have.
DType StoredType(const Checkpoint& checkpoint);

// Of config.json's type (dtype, torch_dtype) and StoredType the one with the wider range: float32,
// bfloat16, float16. So a checkpoint that is stored in float32 is computed in it, and no stored
// number is out of range.
DType OwnType(const Checkpoint& checkpoint);

// A sentence for the log of how quantised weights are read; empty for others.
std::string WeightsNote(const Checkpoint& checkpoint);

// A sentence for the log of what an open dtype has become on this device, and which dtype would be
// faster there; empty where the settings say it all.
std::string TypesNote(const ModelOptions& options, const Checkpoint& checkpoint, bool on_gpu,
                      const ComputeDevice& device);

}  // namespace beamline
