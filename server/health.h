// Decides what grpc.health.v1.Health says of the server and of each model, from all that may keep
// them from answering.
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

// Thread safe. A model has a service by its name, SERVING when its highest version that is ready
// can answer, and one by each versioned name. The service of a model that is gone stays, and is
// NOT_SERVING: gRPC takes none away.
class Health {
 public:
  // `service` outlives it.
  Health(grpc::HealthCheckServiceInterface& service, const std::vector<ModelInfo>& models);
  // Another one, of another address, that is told the same from now on.
  void Add(grpc::HealthCheckServiceInterface& service);

  // Tells of the model's state, which has changed.
  void SetState(const ModelInfo& model);
  // Tells whether a replica of the model can answer. While none can, the model and the server as a
  // whole are NOT_SERVING.
  void SetCanAnswer(const ModelInfo& model, bool can_answer);
  // Tells whether the server takes new connections. While it does not, all services are
  // NOT_SERVING.
  void SetAccepting(bool accepting);
  // All services are NOT_SERVING from now on.
  void StartDraining();
  // What it says of the server as a whole.
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
  std::map<std::string, std::map<int32_t, Version>> models_;  // those that are loaded or loading
  bool accepting_ = true;
  bool draining_ = false;
};

}  // namespace beamline
