// Decides the statuses of grpc.health.v1.Health for the server and each model, from all that can
// keep them from answering.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "engine/api/model.h"
#include "grpcpp/health_check_service_interface.h"

namespace beamline {

// Thread safe. A model has a service under its name, SERVING when its highest ready version can
// answer, and one under each versioned name. The service of an unloaded model stays and is
// NOT_SERVING, as gRPC cannot remove a service.
class Health {
 public:
  // `service` outlives this object.
  Health(grpc::HealthCheckServiceInterface& service, const std::vector<ModelInfo>& models);
  // Adds the health service of another address. It gets the same statuses from now on.
  void Add(grpc::HealthCheckServiceInterface& service);

  // Reports a model's new state.
  void SetState(const ModelInfo& model);
  // Reports whether a replica of the model can answer. While none can, the model and the server as
  // a whole are NOT_SERVING.
  void SetCanAnswer(const ModelInfo& model, bool can_answer);
  // Reports whether the server accepts new connections. While it does not, all services are
  // NOT_SERVING.
  void SetAccepting(bool accepting);
  // All services are NOT_SERVING from now on.
  void StartDraining();
  // The status of the server as a whole.
  bool IsServing();

 private:
  struct Version {
    bool is_ready = false;
    bool is_faulted = false;
  };

  // All REQUIRE mutex_.
  void Keep(const ModelInfo& model);
  void TellOfAll();
  void TellOf(const std::string& name);
  bool CanAnswer(const std::string& name) const;
  bool IsOpen() const { return accepting_ && !draining_; }
  void TellOfServer();
  bool ServerIsServing() const;

  void Set(const std::string& name, bool is_serving);

  std::mutex mutex_;  // guards all below
  std::vector<grpc::HealthCheckServiceInterface*> services_;
  std::map<std::string, std::map<int32_t, Version>> models_;  // loading, ready or draining
  bool accepting_ = true;
  bool draining_ = false;
};

}  // namespace beamline
