// An address beside the one that answers requests, for few who connect: where models are loaded and
// unloaded, or where health alone is told.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "beamline/v1/models.grpc.pb.h"
#include "grpcpp/grpcpp.h"
#include "server/accept/acceptor.h"
#include "server/accept/connection_stats.h"
#include "server/busy_ports.h"
#include "server/config/server_config.h"
#include "server/listening.h"

namespace beamline {

class SideListener {
 public:
  struct Options {
    OpenAddress address;
    std::shared_ptr<TlsSource> tls;    // null: plain text
    grpc::Service* service = nullptr;  // outlives the listener
    bool has_health = false;
    // Of clients whose connections keep their places; null: none do. Outlives the listener.
    const BusyPorts* busy_ports = nullptr;
  };

  // Answers from Accept on, until it is destroyed. INTERNAL when gRPC does not start.
  static absl::StatusOr<std::unique_ptr<SideListener>> Start(const ServerConfig& config,
                                                             Options options);
  ~SideListener();

  absl::Status Accept();

  const std::string& address() const { return address_.text; }
  // Null without has_health.
  grpc::HealthCheckServiceInterface* health() const { return server_->GetHealthCheckService(); }

 private:
  SideListener() = default;

  // Of health alone: gRPC starts no server without a method that is not its own. It answers
  // UNIMPLEMENTED, as if it were not there.
  v1::Models::CallbackService nothing_;
  OpenAddress address_;
  AcceptorOptions acceptor_options_;
  ConnectionStats connection_stats_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<Connections> connections_;
  std::unique_ptr<Acceptor> acceptor_;
};

}  // namespace beamline
