// The line of the log about a request that is over.
#pragma once

#include <string>

#include "server/telemetry/call_record.h"

namespace beamline {

struct RequestLogOptions {
  bool json = false;  // the log's lines are JSON objects
  bool all = false;   // every request has a line at level info or above
};

// One line: `request rpc=Generate model="write-en" request_id="a7" code=OK seconds=0.012345`, and
// behind it what is known of the caller, the trace, the sizes and the times; with fault="..." when
// the server is at fault. Quoted values are escaped as in C, so that a client can neither begin a
// line nor feign a field. As JSON an object with the same names and `"event":"request"` first.
std::string RequestLine(const CallRecord& record, bool json = false);

// Level error for faults of the server; info for other errors, and for every request where all are
// asked for; else debug for what was answered, cancelled or past its deadline, or refused for load,
// a drain or a failed device: these may be many at a time and have metrics.
void LogRequest(const CallRecord& record, const RequestLogOptions& options = {});

}  // namespace beamline
