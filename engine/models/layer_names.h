// Names of the tensors of a layer, as most families' checkpoints have them.
#pragma once

#include <string>

#include "engine/transformer/spec.h"

namespace beamline {

// NAME.weight and, where there is one, NAME.bias.
LinearNames NamedLinear(const std::string& name, bool has_bias = true);
NormNames NamedNorm(const std::string& name, bool has_bias = true);

}  // namespace beamline
