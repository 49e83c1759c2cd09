// LoadModel and UnloadModel, at the admin address. The engine's part, which takes seconds, runs on
// threads of their own.
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

// Runs the loads and unloads of a server. Thread safe.
class ModelAdmin {
 public:
  // The most that run at a time: an unload may wait long for requests to finish.
  static constexpr int kMostAtOnce = 8;

  ModelAdmin(ModelRoot root, std::string default_device, std::chrono::milliseconds default_grace)
      : root_(std::move(root)),
        default_device_(std::move(default_device)),
        default_grace_(default_grace) {}

  const ModelRoot& root() const { return root_; }
  const std::string& default_device() const { return default_device_; }
  std::chrono::milliseconds default_grace() const { return default_grace_; }
  // Runs `work` on another thread; RESOURCE_EXHAUSTED when too many are under way, UNAVAILABLE
  // after Finish.
  absl::Status Run(std::function<void()> work);
  // Waits until what runs is done.
  void Finish();

 private:
  const ModelRoot root_;
  const std::string default_device_;
  const std::chrono::milliseconds default_grace_;
  std::mutex mutex_;  // guards all below
  std::condition_variable idle_;
  int running_ = 0;
  bool finished_ = false;
  WorkerPool workers_{kMostAtOnce};  // last: its end waits for what runs
};

class LoadModelCall final : public UnaryCall {
 public:
  LoadModelCall(ServiceContext& services, ModelAdmin& admin, grpc::ByteBuffer* response)
      : UnaryCall(services, Rpc::kLoadModel, response), admin_(admin) {}
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
  UnloadModelCall(ServiceContext& services, ModelAdmin& admin, grpc::ByteBuffer* response)
      : UnaryCall(services, Rpc::kUnloadModel, response), admin_(admin) {}
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

}  // namespace beamline
