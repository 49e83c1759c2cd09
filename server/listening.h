// What the listeners of a server have in common: an address, TLS or none, and connections that are
// accepted here and handed to gRPC.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "grpcpp/grpcpp.h"
#include "server/accept/acceptor.h"
#include "server/accept/listen_socket.h"
#include "server/security/tls_credentials.h"

namespace beamline {

struct OpenAddress {
  ListenSockets sockets;
  int port = 0;
  std::string text;  // "127.0.0.1:50051", with the port that was chosen
};

// Listens where the setting says. INVALID_ARGUMENT or UNAVAILABLE, naming the address.
absl::StatusOr<OpenAddress> ListenAt(const std::string& setting, const std::string& value);

// A warning where others than this machine reach an address at which nothing is encrypted.
void WarnOfPlainText(const std::string& setting, const OpenAddress& address);

// Plain text without a source. `connections` is what the server's builder gives for connections
// that are accepted elsewhere.
using Connections = grpc::experimental::ExternalConnectionAcceptor;
std::unique_ptr<Connections> AddConnections(const std::shared_ptr<TlsSource>& tls,
                                            grpc::ServerBuilder& builder);
// The builder's server has no reflection, which is a service of gRPC's own that answers everybody.
void LeaveOutReflection(grpc::ServerBuilder& builder);
// Compressed requests are refused: their size is checked before they are inflated.
void LeaveOutCompression(grpc::ServerBuilder& builder);
// What a client is told that speaks HTTP/1.1 to gRPC (AcceptorOptions::http_hint). `http_address`
// is where HTTP is spoken; empty: nowhere.
std::string HttpHint(const std::string& http_address);
// What a client begins with.
std::string_view FirstBytes(const std::shared_ptr<TlsSource>& tls);
// `connections` outlives it.
Acceptor::HandOver HandOverTo(Connections& connections);

}  // namespace beamline
