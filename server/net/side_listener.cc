#include "server/net/side_listener.h"

#include <chrono>
#include <utility>

#include "base/status.h"
#include "server/net/descriptors.h"
#include "server/net/hang_up.h"
#include "server/net/peer_address.h"
#include "server/security/metadata_limits.h"

namespace beamline {
namespace {

// Calls per connection. An operator's program has one or two.
constexpr int kMostCalls = 100;
// Time for last answers to reach clients.
constexpr std::chrono::milliseconds kSideCloseTime{100};

}  // namespace

absl::StatusOr<std::unique_ptr<SideListener>> SideListener::Start(const ServerConfig& config,
                                                                  Options options) {
  std::unique_ptr<SideListener> listener(new SideListener());
  listener->address_ = std::move(options.address);
  grpc::EnableDefaultHealthCheckService(false);  // health_service.h replaces it
  grpc::ServerBuilder builder;
  builder.SetMaxReceiveMessageSize(options.max_receive_bytes);
  builder.SetMaxSendMessageSize(config.max_send_bytes);
  LeaveOutCompression(builder);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kMostCalls);
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, kMetadataBytesOfGrpc);
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, config.handshake_timeout_ms);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_BDP_PROBE, 0);  // as at the main address
  builder.RegisterService(options.service);
  if (!options.has_reflection || !config.identity_file.empty()) LeaveOutReflection(builder);
  listener->connections_ = AddConnections(options.tls, builder);
  listener->server_ = builder.BuildAndStart();
  if (listener->server_ == nullptr) return absl::InternalError("gRPC does not start");
  listener->acceptor_options_ = {
      .max_connections = SidePlaces(),
      .max_connections_per_peer = SidePlacesOfPeer(),
      .handshake_timeout = std::chrono::milliseconds(config.handshake_timeout_ms),
      .first_bytes = FirstBytes(options.tls),
      .watches_floods = options.tls == nullptr,
      .paces_peers = true,
      .is_idle = [busy = options.busy_ports](int fd) {
        return busy == nullptr || !busy->Has(PeerPort(fd));
      }};
  return listener;
}

absl::Status SideListener::Accept() {
  BEAMLINE_ASSIGN_OR_RETURN(
      acceptor_, Acceptor::Start(
                     std::move(address_.sockets), acceptor_options_, HandOverTo(*connections_),
                     [](bool) {}, connection_stats_));
  return absl::OkStatus();
}

SideListener::~SideListener() {
  acceptor_.reset();
  if (server_ == nullptr) return;
  HangUpAnswered(address_.port);
  server_->Shutdown(std::chrono::system_clock::now() + kSideCloseTime);
}

}  // namespace beamline
