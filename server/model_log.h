// What the log says of models.
#pragma once

#include "engine/api/model.h"

namespace beamline {

// Where a model computes and why, and how it was warmed up.
void LogReady(const ModelInfo& model);
// A change that the engine has told of.
void LogChange(const ModelInfo& model);

}  // namespace beamline
