// The caller of a call: identity, address, deadline and trace.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "engine/api/request.h"
#include "grpc/support/time.h"
#include "grpcpp/server_context.h"
#include "server/telemetry/trace_context.h"

namespace beamline {

struct Caller {
  std::optional<Clock::time_point> deadline;  // none: the caller waits forever
  std::string client;                         // key of fair queueing between clients
  bool is_identity = false;                   // `client` is an authenticated identity
  std::string peer;                           // the peer's address: "ipv4:10.0.0.7:41234"
  TraceContext trace;                         // from the caller's traceparent; empty without one
  // The context of a gRPC call, valid while it runs. Null for other protocols.
  const grpc::CallbackServerContext* context = nullptr;
  // Charges several requests of one call together. Null: each request has its own charge.
  std::shared_ptr<TokenCharge> charge = nullptr;
  // From the call's metadata, for protocols whose requests do not name a model.
  std::string model = {};
};

// A call's deadline on the steady clock, which cannot be adjusted. None when the call has none, or
// one more than 100 years ahead (a call may ask for 11,000 years, the clock counts 292).
std::optional<Clock::time_point> DeadlineOf(gpr_timespec deadline);

// The client key is the identity. Without one it is `named` (the client's own name, cut to 256
// bytes), else `host`.
Caller MakeCaller(std::optional<Clock::time_point> deadline, const std::string& identity,
                  std::optional<std::string_view> named, const std::string& host);

// The caller of a gRPC call. `named` is the metadata key `x-client-id`, which a gateway with many
// users sets. The host is the peer's address without its port.
Caller CallerOf(const grpc::CallbackServerContext& context, const std::string& identity);

}  // namespace beamline
