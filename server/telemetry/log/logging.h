// Logs go to standard error, one line each. They never contain the text of a prompt or an answer.
#pragma once

#include <string>

namespace beamline {

// Call once per process. Also redirects the logs of gRPC and protobuf to this log, at level debug.
void SetUpLogging();
// Writes waiting lines. Call before the process ends otherwise than by returning from main.
void FlushLog();
// level: debug, info, warn, error or off; default info.
void SetLogLevel(const std::string& level);
// format: text or json, for all later lines.
void SetLogFormat(const std::string& format);

}  // namespace beamline
