// The HTTP server behind /metrics. Whoever connects and asks for nothing holds no thread and, when
// others come, no place.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "prometheus/collectable.h"

namespace beamline {

class MetricsEndpoint {
 public:
  // address: host:port; port 0: any free one. UNAVAILABLE when it cannot listen there.
  static absl::StatusOr<std::unique_ptr<MetricsEndpoint>> Listen(
      const std::string& host, int port, std::shared_ptr<prometheus::Collectable> metrics);
  // Closes the port, at once.
  virtual ~MetricsEndpoint() = default;

  virtual int port() const = 0;
};

}  // namespace beamline
