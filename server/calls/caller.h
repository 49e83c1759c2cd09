// Who calls, and how long the caller waits for an answer.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "engine/api/request.h"
#include "grpc/support/time.h"
#include "grpcpp/server_context.h"
#include "server/tracing/trace_context.h"

namespace beamline {

struct Caller {
  std::optional<Clock::time_point> deadline;  // none: the caller waits for ever
  std::string client;                         // requests are shared out fairly between clients
  bool is_identity = false;                   // the client is who the server's gate knows it to be
  std::string peer;                           // where the call came from: "ipv4:10.0.0.7:41234"
  TraceContext trace;                         // what the caller's traceparent says; else empty
  // Of a call of gRPC's, for as long as it runs; else null.
  const grpc::CallbackServerContext* context = nullptr;
  // Where the parts of one call are charged together; null: each by itself.
  std::shared_ptr<TokenCharge> charge = nullptr;
  std::string model = {};  // in protocols whose requests name none: by the call's metadata
};

// A call's deadline on the steady clock, which nobody sets; none when the call has none, or one in
// more than 100 years, where a call may ask for 11,000 and the clock counts 292.
std::optional<Clock::time_point> DeadlineOf(gpr_timespec deadline);

// The client is the identity; where that is empty what it calls itself (at most 256 bytes of it),
// else its host.
Caller MakeCaller(std::optional<Clock::time_point> deadline, const std::string& identity,
                  std::optional<std::string_view> named, const std::string& host);

// The caller of a call of gRPC's: he calls himself what the metadata key `x-client-id` says (a
// gateway that serves many users sets it), its host is the peer's address without its port.
Caller CallerOf(const grpc::CallbackServerContext& context, const std::string& identity);

}  // namespace beamline
