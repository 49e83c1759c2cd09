// LoadModel, UnloadModel and RestartReplica, at the admin address. The engine's part, which takes
// seconds, runs on threads of their own.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <utility>

#include "base/worker_pool.h"
#include "server/calls/unary_call.h"
#include "server/model_root.h"

namespace beamline {

// Runs the loads, unloads and restarts of a server. Thread safe.
class ModelAdmin {
 public:
  // The most that run at a time: an unload may wait long for requests to finish.
  static constexpr int kMostAtOnce = 8;

  // What calls get that do not say: the server's settings.
  struct Defaults {
    std::function<void(ModelOptions&)> fill;
    std::chrono::milliseconds grace{0};
  };

  ModelAdmin(ModelRoot root, Defaults defaults)
      : root_(std::move(root)), defaults_(std::move(defaults)) {}

  const ModelRoot& root() const { return root_; }
  const Defaults& defaults() const { return defaults_; }
  // Runs `work` on another thread; RESOURCE_EXHAUSTED when too many are under way, UNAVAILABLE
  // after Finish.
  absl::Status Run(std::function<void()> work);
  // Waits until what runs is done.
  void Finish();

 private:
  const ModelRoot root_;
  const Defaults defaults_;
  std::mutex mutex_;  // guards all below
  std::condition_variable idle_;
  int running_ = 0;
  bool finished_ = false;
  WorkerPool workers_{kMostAtOnce};  // last: its end waits for what runs
};

class LoadModelCall final : public UnaryCall {
 public:
  static constexpr Rpc kRpc = Rpc::kLoadModel;

  LoadModelCall(ServiceContext& services, ModelAdmin& admin, grpc::ByteBuffer* response)
      : UnaryCall(services, kRpc, response), admin_(admin) {}
  // To be called once, within the service's method.
  void Start(const grpc::ByteBuffer& buffer);

 private:
  absl::Status Prepare(const grpc::ByteBuffer& buffer);
  void Load();

  ModelAdmin& admin_;
  ModelOptions options_;
};

class UnloadModelCall final : public UnaryCall {
 public:
  static constexpr Rpc kRpc = Rpc::kUnloadModel;

  UnloadModelCall(ServiceContext& services, ModelAdmin& admin, grpc::ByteBuffer* response)
      : UnaryCall(services, kRpc, response), admin_(admin) {}
  // To be called once, within the service's method.
  void Start(const grpc::ByteBuffer& buffer);

 private:
  absl::Status Prepare(const grpc::ByteBuffer& buffer);
  void Unload();

  ModelAdmin& admin_;
  std::string name_;
  int32_t version_ = 0;
  std::chrono::milliseconds grace_{0};
};

class RestartReplicaCall final : public UnaryCall {
 public:
  static constexpr Rpc kRpc = Rpc::kRestartReplica;

  RestartReplicaCall(ServiceContext& services, ModelAdmin& admin, grpc::ByteBuffer* response)
      : UnaryCall(services, kRpc, response), admin_(admin) {}
  // To be called once, within the service's method.
  void Start(const grpc::ByteBuffer& buffer);

 private:
  absl::Status Prepare(const grpc::ByteBuffer& buffer);
  void Restart();

  ModelAdmin& admin_;
  std::string name_;
  int32_t version_ = 0;
  int32_t replica_ = 0;
  std::chrono::milliseconds grace_{0};
};

}  // namespace beamline
