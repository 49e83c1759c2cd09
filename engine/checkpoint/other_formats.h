// What a folder holds that no checkpoint of Beamline's is, for whoever looks for one there.
#pragma once

#include <string>

namespace beamline {

// Which weights of other formats lie in the folder, and what to do: "; it holds model.gguf, ...".
// Empty when there are none.
std::string OtherFormatsIn(const std::string& folder);

}  // namespace beamline
