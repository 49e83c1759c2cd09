// The log line of a finished request.
#pragma once

#include <string>

#include "server/telemetry/call_record.h"

namespace beamline {

struct RequestLogOptions {
  bool json = false;  // log lines are JSON objects
  bool all = false;   // log every request at level info or above
};

// One line: `request rpc=Generate model="write-en" request_id="a7" code=OK seconds=0.012345`,
// followed by what is known of the caller, trace, sizes and times. It has fault="..." when the
// server is at fault. Quoted values are escaped as in C, so that a client can neither start a line
// nor fake a field. In JSON: an object with the same names, `"event":"request"` first.
std::string RequestLine(const CallRecord& record, bool json = false);

// Levels: error for the server's faults. info for other errors, and for every request with `all`.
// debug for calls that were answered, cancelled or past their deadline, or refused for load, a
// drain or a failed device: there may be many at a time, and metrics count them.
void LogRequest(const CallRecord& record, const RequestLogOptions& options = {});

}  // namespace beamline
