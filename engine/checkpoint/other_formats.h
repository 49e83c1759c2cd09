// Detects weights of other formats in a checkpoint folder, for error messages.
#pragma once

#include <string>

#include "engine/checkpoint/checkpoint_path.h"

namespace beamline {

// Names weights of other formats in the folder and says what to do: "; it holds model.gguf, ...".
// Empty if there are none.
std::string OtherFormatsIn(const CheckpointPath& folder);

}  // namespace beamline
