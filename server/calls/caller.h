// Who calls, and until when an answer is any good.
#pragma once

#include <chrono>
#include <string>

#include "grpcpp/server_context.h"

namespace beamline {

struct Caller {
  std::chrono::system_clock::time_point deadline;
  std::string client;  // requests are shared out fairly between clients
};

// The client is what the metadata key `x-client-id` says (a gateway that serves many users sets
// it), else the peer's address without its port.
Caller CallerOf(const grpc::CallbackServerContext& context);

}  // namespace beamline
