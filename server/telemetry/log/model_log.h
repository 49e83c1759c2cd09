// Log lines about models.
#pragma once

#include "engine/api/model.h"

namespace beamline {

// Logs a ready model's device, the reason for it, and how it was warmed up.
void LogReady(const ModelInfo& model);
// Logs a model's new state.
void LogChange(const ModelInfo& model);
// Logs a replica's new phase.
void LogChange(const ReplicaChange& change);

}  // namespace beamline
