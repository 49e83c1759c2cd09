// The channel of a client's connection. Internal to the client, and for programs of this repository
// that make their calls themselves.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "client/client.h"
#include "grpcpp/grpcpp.h"

namespace beamline {

// Connects with the first call; the token, where there is one, goes with each. Certificates or a
// key that gRPC cannot read make every call fail.
std::shared_ptr<grpc::Channel> OpenChannel(const std::string& target,
                                           const std::optional<TlsOptions>& tls,
                                           const std::string& token,
                                           grpc::ChannelArguments arguments);

// What may be behind a connection that did not come about, " (...)", where gRPC's message of it
// does not say it: the two ends differ in TLS, say. Else empty.
std::string ConnectionHint(const std::string& message);

}  // namespace beamline
