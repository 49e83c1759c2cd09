// An address beside the one that answers requests, for few who connect: where models are loaded and
// unloaded, or where health alone is told.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
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
    grpc::Service* service = nullptr;  // the only one; outlives the listener
    int max_receive_bytes = 0;
    bool has_reflection = false;  // unless there is an identity_file
    // Of clients whose connections keep their places; null: none do. Outlives the listener.
    const BusyPorts* busy_ports = nullptr;
  };

  // Answers from Accept on, until it is destroyed. INTERNAL when gRPC does not start.
  static absl::StatusOr<std::unique_ptr<SideListener>> Start(const ServerConfig& config,
                                                             Options options);
  ~SideListener();

  absl::Status Accept();

  const std::string& address() const { return address_.text; }

 private:
  SideListener() = default;

  OpenAddress address_;
  AcceptorOptions acceptor_options_;
  ConnectionStats connection_stats_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<Connections> connections_;
  std::unique_ptr<Acceptor> acceptor_;
};

}  // namespace beamline
