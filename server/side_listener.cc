#include "server/side_listener.h"

#include <chrono>
#include <utility>

#include "base/status.h"
#include "server/accept/hang_up.h"

namespace beamline {
namespace {

// Few, because only operators and their programs connect.
constexpr int32_t kMostConnections = 64;
// How long the last answers may take to reach their readers.
constexpr std::chrono::milliseconds kSideCloseTime{100};

}  // namespace

absl::StatusOr<std::unique_ptr<SideListener>> SideListener::Start(const ServerConfig& config,
                                                                  Options options) {
  std::unique_ptr<SideListener> listener(new SideListener());
  listener->address_ = std::move(options.address);
  grpc::EnableDefaultHealthCheckService(options.has_health);
  grpc::ServerBuilder builder;
  builder.SetMaxReceiveMessageSize(config.max_receive_bytes);
  builder.SetMaxSendMessageSize(config.max_send_bytes);
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, config.handshake_timeout_ms);
  builder.RegisterService(options.service != nullptr ? options.service : &listener->nothing_);
  if (options.has_health || !config.identity_file.empty()) LeaveOutReflection(builder);
  listener->connections_ = AddConnections(options.tls, builder);
  listener->server_ = builder.BuildAndStart();
  if (listener->server_ == nullptr) return absl::InternalError("gRPC does not start");
  listener->acceptor_options_ = {
      .max_connections = kMostConnections,
      .max_connections_per_peer = kMostConnections,
      .handshake_timeout = std::chrono::milliseconds(config.handshake_timeout_ms),
      .first_bytes = FirstBytes(options.tls)};
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
