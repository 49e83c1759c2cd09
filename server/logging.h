// Logs go to standard error: one line each, never a prompt's or an answer's text.
#pragma once

#include <string>

namespace beamline {

// To be called once per process. What gRPC and protobuf log becomes lines of this log, at level
// debug.
void SetUpLogging();
// Before the process ends otherwise than by the end of main: lines may wait some milliseconds for
// others.
void FlushLog();
// level: debug, info, warn, error, off; info until it is called.
void SetLogLevel(const std::string& level);
// text or json, of every line from now on.
void SetLogFormat(const std::string& format);

}  // namespace beamline
