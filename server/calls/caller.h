// Who calls, and how long the caller waits for an answer.
#pragma once

#include <chrono>
#include <string>

#include "grpc/support/time.h"
#include "grpcpp/server_context.h"

namespace beamline {

struct Caller {
  std::chrono::system_clock::time_point deadline;
  std::string client;        // requests are shared out fairly between clients
  bool is_identity = false;  // the client is who the server's gate knows it to be
  std::string model = {};    // in protocols whose requests name none: by the call's metadata
};

// A call's deadline; time_point::max() when there is none, or none that the clock reaches: in more
// than 100 years, where a call may ask for 11,000 and system_clock counts to the year 2262.
std::chrono::system_clock::time_point DeadlineOf(gpr_timespec deadline);

// The client is the identity; where that is empty what the metadata key `x-client-id` says (a
// gateway that serves many users sets it), else the peer's address without its port.
Caller CallerOf(const grpc::CallbackServerContext& context, const std::string& identity);

}  // namespace beamline
