// What a model's settings say of the types of its numbers.
#pragma once

#include "engine/api/model.h"
#include "kernels/precision.h"

namespace beamline {

// `weights`, `compute` and `cache`, each where it is set; dtype stands for those of weights and
// compute that are not, and a cache that is not set has the type of activations. A word that is no
// type counts as none (model_options_check.h refuses it).
Precision PrecisionOf(const ModelOptions& options);

}  // namespace beamline
