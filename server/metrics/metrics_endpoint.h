// The HTTP server behind /metrics.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "prometheus/collectable.h"
#include "prometheus/exposer.h"

namespace beamline {

class MetricsEndpoint {
 public:
  // address: host:port; port 0: any free one. UNAVAILABLE when it cannot listen there.
  static absl::StatusOr<std::unique_ptr<MetricsEndpoint>> Listen(
      const std::string& host, int port, std::shared_ptr<prometheus::Collectable> metrics);
  // Closes the port, at once.
  ~MetricsEndpoint();

  int port() const { return port_; }

 private:
  MetricsEndpoint() = default;

  std::string host_;
  int port_ = 0;
  std::unique_ptr<prometheus::Exposer> exposer_;
};

}  // namespace beamline
