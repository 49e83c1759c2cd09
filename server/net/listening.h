// Common functions of the server's listeners: an address, TLS or plain text, and connections that
// are accepted here and handed to gRPC.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "grpcpp/grpcpp.h"
#include "server/net/acceptor.h"
#include "server/net/listen_socket.h"
#include "server/security/tls_credentials.h"

namespace beamline {

struct OpenAddress {
  ListenSockets sockets;
  int port = 0;
  std::string text;  // "127.0.0.1:50051", with the chosen port
};

// Listens at the setting's address. INVALID_ARGUMENT or UNAVAILABLE, naming the address.
absl::StatusOr<OpenAddress> ListenAt(const std::string& setting, const std::string& value);

// Warns if other machines can reach an address without TLS.
void WarnOfPlainText(const std::string& setting, const OpenAddress& address);

// Lets `builder`'s server take connections that are accepted elsewhere. Plain text if `tls` is
// null.
using Connections = grpc::experimental::ExternalConnectionAcceptor;
std::unique_ptr<Connections> AddConnections(const std::shared_ptr<TlsSource>& tls,
                                            grpc::ServerBuilder& builder);
// Leaves reflection out of the builder's server. It is gRPC's own service, and needs no
// authentication.
void LeaveOutReflection(grpc::ServerBuilder& builder);
// Refuses compressed requests: their size is checked before they are inflated.
void LeaveOutCompression(grpc::ServerBuilder& builder);
// The answer to a client that speaks HTTP/1.1 to gRPC's port (AcceptorOptions::http_hint).
// `http_address`: where HTTP is served; empty: nowhere.
std::string HttpHint(const std::string& http_address);
// The first bytes that a client sends.
std::string_view FirstBytes(const std::shared_ptr<TlsSource>& tls);
// `connections` outlives it.
Acceptor::HandOver HandOverTo(Connections& connections);

}  // namespace beamline
