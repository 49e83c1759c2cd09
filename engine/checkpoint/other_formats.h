// Weights of other formats in a folder where a checkpoint was expected, for error messages.
#pragma once

#include <string>

namespace beamline {

// Which weights of other formats lie in the folder, and what to do: "; it holds model.gguf, ...".
// Empty when there are none.
std::string OtherFormatsIn(const std::string& folder);

}  // namespace beamline
