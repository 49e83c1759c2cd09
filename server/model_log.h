// What the log says of models.
#pragma once

#include "engine/api/model.h"

namespace beamline {

// Where a model computes and why, and how it was warmed up.
void LogReady(const ModelInfo& model);
// A model's new state, as the engine has told it.
void LogChange(const ModelInfo& model);
// A replica's new phase.
void LogChange(const ReplicaChange& change);

}  // namespace beamline
