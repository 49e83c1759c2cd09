// The HTTP server for /metrics. An idle connection holds no thread, and is closed when others need
// its slot.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "prometheus/collectable.h"

namespace beamline {

class MetricsEndpoint {
 public:
  // host:port of the address; port 0: any free port. UNAVAILABLE if it cannot listen there.
  static absl::StatusOr<std::unique_ptr<MetricsEndpoint>> Listen(
      const std::string& host, int port, std::shared_ptr<prometheus::Collectable> metrics);
  // Closes the port at once.
  virtual ~MetricsEndpoint() = default;

  virtual int port() const = 0;
};

}  // namespace beamline
