// This server's grpc.health.v1.Health. gRPC's own service reads a whole request, of any size and in
// any time, before it reports the call. This one reads as message_gate.h describes.
#pragma once

#include <list>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "grpc/health/v1/health.grpc.pb.h"
#include "grpcpp/health_check_service_interface.h"
#include "grpcpp/support/byte_buffer.h"
#include "server/calls/call_state.h"

namespace beamline {

using RawHealth = grpc::health::v1::Health::WithRawCallbackMethod_Check<
    grpc::health::v1::Health::WithRawCallbackMethod_Watch<grpc::health::v1::Health::Service>>;

// Thread safe. Needs no authentication.
class HealthService final : public RawHealth, public grpc::HealthCheckServiceInterface {
 public:
  explicit HealthService(ServiceContext& services);

  // A service is unknown until its status is set.
  void SetServingStatus(const std::string& name, bool is_serving) override;
  // Sets the status of all known services.
  void SetServingStatus(bool is_serving) override;

  grpc::ServerUnaryReactor* Check(grpc::CallbackServerContext* context,
                                  const grpc::ByteBuffer* request,
                                  grpc::ByteBuffer* response) override;
  grpc::ServerWriteReactor<grpc::ByteBuffer>* Watch(grpc::CallbackServerContext* context,
                                                    const grpc::ByteBuffer* request) override;

 private:
  using Status = grpc::health::v1::HealthCheckResponse::ServingStatus;
  class Watcher;

  // REQUIRE mutex_. SERVICE_UNKNOWN for an unknown service.
  Status StatusOf(const std::string& name) const;
  // Adds the watchers with something to write. Call Tell for each, without mutex_.
  void AddWatchers(const std::string& name, std::vector<Watcher*>& tell);

  std::mutex mutex_;
  std::map<std::string, bool> serving_;                  // guarded by mutex_
  std::map<std::string, std::list<Watcher*>> watchers_;  // guarded by mutex_
};

}  // namespace beamline
