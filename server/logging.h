// Logs go to standard error: one line each, never a prompt's or an answer's text.
#pragma once

#include <string>

namespace beamline {

// Once per process. The logs of gRPC and protobuf become ours at level debug, one line each.
void SetUpLogging();
// level: debug, info, warn, error, off; info until it is called.
void SetLogLevel(const std::string& level);

}  // namespace beamline
