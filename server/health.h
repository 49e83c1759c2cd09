// What grpc.health.v1.Health says of the server and of each model, put together from what may keep
// them from answering.
#pragma once

#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "grpcpp/health_check_service_interface.h"

namespace beamline {

// Thread safe. All are SERVING at first.
class Health {
 public:
  // `service` outlives it.
  Health(grpc::HealthCheckServiceInterface& service, std::vector<std::string> models);

  // The model's device has failed for good: neither it nor the server as a whole is well.
  void SetFaulted(const std::string& model);
  // Whether the server takes new connections; without that nobody new is served.
  void SetAccepting(bool accepting);
  // For good.
  void StartDraining();

 private:
  void Tell();  // REQUIRES: mutex_

  grpc::HealthCheckServiceInterface& service_;
  const std::vector<std::string> models_;
  std::mutex mutex_;  // guards all below
  std::set<std::string> faulted_;
  bool accepting_ = true;
  bool draining_ = false;
};

}  // namespace beamline
