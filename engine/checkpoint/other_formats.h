// Weights of other formats in a folder where a checkpoint was expected, for error messages.
#pragma once

#include <string>

#include "engine/checkpoint/checkpoint_path.h"

namespace beamline {

// Which weights of other formats lie in the folder, and what to do: "; it holds model.gguf, ...".
// Empty when there are none.
std::string OtherFormatsIn(const CheckpointPath& folder);

}  // namespace beamline
