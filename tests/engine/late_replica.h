// A replica of a demo model on a LateBackend.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <utility>

#include "engine/checkpoint/checkpoint.h"
#include "engine/intake/encode_intake.h"
#include "engine/intake/generate_intake.h"
#include "engine/models/models.h"
#include "engine/serving/replica.h"
#include "tests/engine/demo_engine.h"
#include "tests/engine/hand_in.h"
#include "tests/engine/late_backend.h"

namespace beamline {

class RecordingEncodeSink : public EncodeSink {
 public:
  void OnFinish(absl::StatusOr<EncodeResult> result) override {
    result_.set_value(std::move(result));
  }
  absl::StatusOr<EncodeResult> Wait() { return result_.get_future().get(); }

 private:
  std::promise<absl::StatusOr<EncodeResult>> result_;
};

class LateReplica {
 public:
  // cache_blocks 0: as many as the engine takes.
  explicit LateReplica(const std::string& name, int32_t cache_blocks = 0)
      : LateReplica(Demo(name), cache_blocks) {}
  explicit LateReplica(const ModelOptions& served, int32_t cache_blocks = 0) {
    auto model = LoadedModel::Load(served, {.num_threads = 1, .gpu_memory = kTestGpuMemory});
    EXPECT_TRUE(model.ok()) << model.status();
    if (cache_blocks > 0) (*model)->limits.num_blocks = cache_blocks;
    auto backend = std::make_unique<LateBackend>(1);
    backend_ = backend.get();
    auto checkpoint = Checkpoint::Open((*model)->options.folder);
    EXPECT_TRUE(checkpoint.ok()) << checkpoint.status();
    auto transformer = Transformer::Create((*model)->description.spec, **checkpoint,
                                           DType::kFloat32, (*model)->limits, *backend);
    EXPECT_TRUE(transformer.ok()) << transformer.status();
    (*model)->transformer = *std::move(transformer);
    (*model)->backend = std::move(backend);
    replica_ = std::make_shared<Replica>(*std::move(model), nullptr);
  }

  std::shared_ptr<std::atomic<bool>> Submit(const GenerateRequest& request,
                                            std::shared_ptr<RecordingSink> sink) {
    return HandIn<GenerateIntake>(request, std::move(sink), tickets_, *replica_);
  }
  std::shared_ptr<std::atomic<bool>> Submit(const EncodeRequest& request,
                                            std::shared_ptr<RecordingEncodeSink> sink) {
    return HandIn<EncodeIntake>(request, std::move(sink), tickets_, *replica_);
  }
  bool WaitForAll() { return tickets_.WaitForNone(std::chrono::milliseconds(60000)); }
  Replica& replica() { return *replica_; }
  Place Enter() { return {replica_, std::make_unique<Ticket>(replica_->tickets())}; }
  const ReplicaStats& stats() const { return replica_->stats(); }
  ReplicaFault& fault() { return replica_->fault(); }
  LateBackend& backend() { return *backend_; }
  // REQUIRES: nothing has been submitted.
  Transformer& transformer() const { return *replica_->model().transformer; }
  const StepLimits& limits() const { return replica_->model().limits; }

 private:
  TicketCounter tickets_;
  LateBackend* backend_ = nullptr;
  std::shared_ptr<Replica> replica_;
};

}  // namespace beamline
