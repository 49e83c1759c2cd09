// Opens the channel of a client's connection. Internal to the client, and for programs of this
// repository that make their own calls.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "client/client.h"
#include "grpcpp/grpcpp.h"

namespace beamline {

// Connects on the first call. The token, if any, is sent with each call. If gRPC cannot read a
// certificate or key, every call fails.
std::shared_ptr<grpc::Channel> OpenChannel(const std::string& target,
                                           const std::optional<TlsOptions>& tls,
                                           const std::string& token,
                                           grpc::ChannelArguments arguments);

// A hint, " (...)", about the likely cause of a failed connection, such as TLS on only one end.
// Empty if gRPC's message already tells the cause.
std::string ConnectionHint(const std::string& message);

}  // namespace beamline
