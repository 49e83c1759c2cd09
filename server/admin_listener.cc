#include "server/admin_listener.h"

#include <chrono>
#include <utility>

#include "base/status.h"
#include "fmt/format.h"
#include "server/accept/hang_up.h"
#include "server/accept/listen_socket.h"

namespace beamline {
namespace {

// Few, because only operators and their programs connect.
constexpr int32_t kMostConnections = 64;
constexpr std::chrono::milliseconds kUnacknowledged{20000};
// How long the last answers may take to reach their readers.
constexpr std::chrono::milliseconds kCloseTime{100};

}  // namespace

absl::StatusOr<std::unique_ptr<AdminListener>> AdminListener::Start(const ServerConfig& config,
                                                                    ModelsService& service) {
  BEAMLINE_ASSIGN_OR_RETURN(const HostPort listen,
                            ParseHostPort("admin_listen", config.admin_listen));
  BEAMLINE_ASSIGN_OR_RETURN(ListenSockets sockets,
                            OpenListenSockets(listen.host, listen.port, kUnacknowledged));
  std::unique_ptr<AdminListener> listener(new AdminListener());
  listener->port_ = sockets.port;
  listener->address_ = fmt::format("{}:{}", listen.host, sockets.port);
  // The public address tells the health of models.
  grpc::EnableDefaultHealthCheckService(false);
  grpc::ServerBuilder builder;
  builder.SetMaxReceiveMessageSize(config.max_receive_bytes);
  builder.SetMaxSendMessageSize(config.max_send_bytes);
  builder.RegisterService(&service);
  listener->connections_ = builder.experimental().AddExternalConnectionAcceptor(
      grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
      grpc::InsecureServerCredentials());
  listener->server_ = builder.BuildAndStart();
  if (listener->server_ == nullptr) return absl::InternalError("gRPC does not start");
  const AcceptorOptions options = {
      .max_connections = kMostConnections,
      .max_connections_per_peer = kMostConnections,
      .handshake_timeout = std::chrono::milliseconds(config.handshake_timeout_ms)};
  const auto hand_over = [connections = listener->connections_.get()](int fd) {
    grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters connection;
    connection.fd = fd;
    connections->HandleNewConnection(&connection);
  };
  BEAMLINE_ASSIGN_OR_RETURN(listener->acceptor_, Acceptor::Start(
                                                     std::move(sockets), options, hand_over,
                                                     [](bool) {}, listener->connection_stats_));
  return listener;
}

AdminListener::~AdminListener() {
  acceptor_.reset();
  if (server_ == nullptr) return;
  HangUpAnswered(port_);
  server_->Shutdown(std::chrono::system_clock::now() + kCloseTime);
}

}  // namespace beamline
