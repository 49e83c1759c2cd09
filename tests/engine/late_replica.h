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
#include "engine/serving/replica_pool.h"
#include "tests/engine/demo_engine.h"
#include "tests/engine/hand_in.h"
#include "tests/engine/late_backend.h"

namespace beamline {

// A model of `options` whose operators a LateBackend computes. cache_blocks 0: as many as the
// engine takes.
inline std::unique_ptr<LoadedModel> LoadLate(const ModelOptions& options,
                                             int32_t cache_blocks = 0) {
  auto model =
      LoadedModel::Load(options, {.cpu = {.num_threads = 1}, .gpu_memory = kTestGpuMemory});
  EXPECT_TRUE(model.ok()) << model.status();
  if (cache_blocks > 0) (*model)->limits.num_blocks = cache_blocks;
  auto backend = std::make_unique<LateBackend>(1);
  auto checkpoint = Checkpoint::Open((*model)->options.folder);
  EXPECT_TRUE(checkpoint.ok()) << checkpoint.status();
  auto transformer = Transformer::Create((*model)->description.spec, **checkpoint, DType::kFloat32,
                                         (*model)->limits, *backend);
  EXPECT_TRUE(transformer.ok()) << transformer.status();
  (*model)->transformer = *std::move(transformer);
  (*model)->backend = std::move(backend);
  (*model)->on_gpu = true;  // as which it behaves
  return *std::move(model);
}

class LateReplica {
 public:
  explicit LateReplica(const std::string& name, int32_t cache_blocks = 0)
      : LateReplica(Demo(name), cache_blocks) {}
  explicit LateReplica(const ModelOptions& served, int32_t cache_blocks = 0) {
    auto pool = ReplicaPool::Create({.load = [&](int) { return LoadLate(served, cache_blocks); }});
    EXPECT_TRUE(pool.ok()) << pool.status();
    pool_ = *std::move(pool);
    replica_ = pool_->replica(0);
    backend_ = static_cast<LateBackend*>(replica_->model().backend.get());
  }
  ~LateReplica() { pool_->Stop(absl::CancelledError("the test is over")); }

  std::shared_ptr<Cancellation> Submit(const GenerateRequest& request,
                                       std::shared_ptr<RecordingSink> sink) {
    return HandIn<GenerateIntake>(request, std::move(sink), tickets_, waiting_, *replica_);
  }
  std::shared_ptr<Cancellation> Submit(const EncodeRequest& request,
                                       std::shared_ptr<RecordingEncodeSink> sink) {
    return HandIn<EncodeIntake>(request, std::move(sink), tickets_, waiting_, *replica_);
  }
  bool WaitForAll() { return tickets_.WaitForNone(std::chrono::milliseconds(60000)); }
  Replica& replica() { return *replica_; }
  ReplicaPool& pool() { return *pool_; }
  Place Enter() { return {pool_, Ticket(pool_->tickets())}; }
  const WaitingCounter& waiting() const { return waiting_; }
  const ReplicaStats& stats() const { return replica_->stats(); }
  ReplicaFault& fault() { return replica_->fault(); }
  LateBackend& backend() { return *backend_; }
  // REQUIRES: nothing has been submitted.
  Transformer& transformer() const { return *replica_->model().transformer; }
  const StepLimits& limits() const { return replica_->model().limits; }

 private:
  TicketCounter tickets_;
  WaitingCounter waiting_;
  std::shared_ptr<ReplicaPool> pool_;
  LateBackend* backend_ = nullptr;
  std::shared_ptr<Replica> replica_;
};

}  // namespace beamline
