// The address at which models are loaded and unloaded: beamline.v1.Models and reflection on a port
// of their own.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "grpcpp/grpcpp.h"
#include "server/accept/acceptor.h"
#include "server/accept/connection_stats.h"
#include "server/config/server_config.h"
#include "server/models_service.h"

namespace beamline {

class AdminListener {
 public:
  // Serves until it is destroyed. `service` outlives it. INVALID_ARGUMENT or UNAVAILABLE, naming
  // the address, when it cannot listen at config.admin_listen.
  static absl::StatusOr<std::unique_ptr<AdminListener>> Start(const ServerConfig& config,
                                                              ModelsService& service);
  ~AdminListener();

  const std::string& address() const { return address_; }

 private:
  AdminListener() = default;

  int port_ = 0;
  std::string address_;
  ConnectionStats connection_stats_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> connections_;
  std::unique_ptr<Acceptor> acceptor_;
};

}  // namespace beamline
