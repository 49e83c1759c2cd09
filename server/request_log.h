// The line of the log about a request that is over.
#pragma once

#include <string>

#include "server/metrics/metrics.h"

namespace beamline {

// One line: `request rpc=Generate model="write-en" request_id="a7" code=OK seconds=0.012345`, with
// fault="..." when the server is at fault. Quoted values are escaped as in C, so that a client can
// neither begin a line nor feign a field.
std::string RequestLine(const CallRecord& record);

// Level error for faults of the server; info for other errors; debug for what was answered,
// cancelled or past its deadline, or refused for load, a drain or a failed device: these may be
// many at a time and have metrics.
void LogRequest(const CallRecord& record);

}  // namespace beamline
