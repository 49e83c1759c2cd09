// An additional address for few clients: the admin address, or an address for health alone.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "grpcpp/grpcpp.h"
#include "server/config/server_config.h"
#include "server/net/acceptor.h"
#include "server/net/busy_ports.h"
#include "server/net/connection_stats.h"
#include "server/net/listening.h"

namespace beamline {

class SideListener {
 public:
  struct Options {
    OpenAddress address;
    std::shared_ptr<TlsSource> tls;    // null: plain text
    grpc::Service* service = nullptr;  // the only service; outlives the listener
    int max_receive_bytes = 0;
    bool has_reflection = false;  // ignored with an identity_file
    // Clients whose connections are not closed for others; null: none. Outlives the listener.
    const BusyPorts* busy_ports = nullptr;
  };

  // Serves from Accept on, until it is destroyed. INTERNAL if gRPC does not start.
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
