// The calls of the admin service: LoadModel, UnloadModel and RestartReplica. The engine needs
// seconds for each, so they run on threads of their own.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "base/worker_pool.h"
#include "server/calls/model_root.h"
#include "server/calls/unary_call.h"
#include "server/net/busy_ports.h"

namespace beamline {

// Runs the loads, unloads and restarts of a server. Thread safe.
class ModelAdmin {
 public:
  // Limit of concurrent operations. An unload may wait long for requests to finish.
  static constexpr int kMostAtOnce = 8;

  // The server's settings, for what a call does not set.
  struct Defaults {
    std::function<void(ModelOptions&)> fill;
    std::chrono::milliseconds grace{0};
  };

  ModelAdmin(ModelRoot root, Defaults defaults)
      : root_(std::move(root)), defaults_(std::move(defaults)) {}

  const ModelRoot& root() const { return root_; }
  const Defaults& defaults() const { return defaults_; }
  // Runs `work` on another thread, frees its slot, then calls the function that `work` returned,
  // which sends the answer. So the client's next call finds a free slot. RESOURCE_EXHAUSTED when
  // kMostAtOnce operations run, UNAVAILABLE after Finish.
  using Work = std::function<std::function<void()>()>;
  absl::Status Run(Work work);
  // Ports of clients that wait for a running operation.
  BusyPorts& busy_ports() { return busy_ports_; }
  // Refuses new work and waits until running work is done.
  void Finish();

 private:
  const ModelRoot root_;
  const Defaults defaults_;
  BusyPorts busy_ports_;
  std::mutex mutex_;  // guards all below
  std::condition_variable idle_;
  int taken_ = 0;    // slots in use
  int running_ = 0;  // operations whose answer is not sent yet
  bool finished_ = false;
  WorkerPool workers_{kMostAtOnce};  // last, as its destructor waits for running work
};

class AdminCall : public UnaryCall {
 public:
  // `port`: of the client's connection. Call before the call starts.
  void Hold(int port) { held_.emplace(admin_.busy_ports(), port); }

 protected:
  AdminCall(ServiceContext& services, Rpc rpc, ModelAdmin& admin, grpc::ByteBuffer* response)
      : UnaryCall(services, rpc, response), admin_(admin) {}

  // Functions for ModelAdmin::Work to return.
  std::function<void()> Failing(absl::Status status) {
    return [this, status = std::move(status)] { Fail(status); };
  }
  template <typename Message>
  std::function<void()> Replying(Message message) {
    return [this, message = std::move(message)] { Reply(message); };
  }

  ModelAdmin& admin_;

 private:
  std::optional<BusyPorts::Holder> held_;
};

class LoadModelCall final : public AdminCall {
 public:
  static constexpr Rpc kRpc = Rpc::kLoadModel;

  LoadModelCall(ServiceContext& services, ModelAdmin& admin, grpc::ByteBuffer* response)
      : AdminCall(services, kRpc, admin, response) {}
  // Call once, within the service's method.
  void Start(const grpc::ByteBuffer& buffer);

 private:
  absl::Status Prepare(const grpc::ByteBuffer& buffer);
  std::function<void()> Load();

  ModelOptions options_;
};

class UnloadModelCall final : public AdminCall {
 public:
  static constexpr Rpc kRpc = Rpc::kUnloadModel;

  UnloadModelCall(ServiceContext& services, ModelAdmin& admin, grpc::ByteBuffer* response)
      : AdminCall(services, kRpc, admin, response) {}
  // Call once, within the service's method.
  void Start(const grpc::ByteBuffer& buffer);

 private:
  absl::Status Prepare(const grpc::ByteBuffer& buffer);
  std::function<void()> Unload();

  std::string name_;
  int32_t version_ = 0;
  std::chrono::milliseconds grace_{0};
};

class RestartReplicaCall final : public AdminCall {
 public:
  static constexpr Rpc kRpc = Rpc::kRestartReplica;

  RestartReplicaCall(ServiceContext& services, ModelAdmin& admin, grpc::ByteBuffer* response)
      : AdminCall(services, kRpc, admin, response) {}
  // Call once, within the service's method.
  void Start(const grpc::ByteBuffer& buffer);

 private:
  absl::Status Prepare(const grpc::ByteBuffer& buffer);
  std::function<void()> Restart();

  std::string name_;
  int32_t version_ = 0;
  int32_t replica_ = 0;
  std::chrono::milliseconds grace_{0};
};

}  // namespace beamline
