// Logs go to standard error: one line each, never a prompt's or an answer's text.
#pragma once

#include <string>

namespace beamline {

// level: debug, info, warn, error, off. The logs of gRPC and protobuf become ours at level debug.
void SetUpLogging(const std::string& level);

}  // namespace beamline
