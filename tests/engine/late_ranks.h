// Ranks whose devices are late, under a replica.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/loading/make_ranks.h"
#include "engine/transformer/ranked_backend.h"
#include "engine/transformer/ranked_transformer.h"
#include "tests/engine/hand_in.h"
#include "tests/engine/late_replica.h"

namespace beamline {

// A replica of a demo model on ranks whose devices are late, and may break; in so many stages of so
// many ranks each.
class LateRanks {
 public:
  using MakeDevice = std::function<std::unique_ptr<LateBackend>(int rank)>;

  LateRanks(
      const std::string& name, int num_ranks, int num_stages = 1,
      const MakeDevice& make = [](int) { return std::make_unique<LateBackend>(1); }) {
    auto model =
        LoadedModel::Load(Demo(name), {.cpu = {.num_threads = 1}, .gpu_memory = kTestGpuMemory});
    EXPECT_TRUE(model.ok()) << model.status();
    (*model)->limits.num_lanes = num_stages;
    std::vector<std::unique_ptr<Backend>> devices;
    for (int rank = 0; rank < num_stages * num_ranks; ++rank) {
      auto backend = make(rank);
      backends_.push_back(backend.get());
      devices.push_back(std::move(backend));
    }
    auto group = std::make_unique<RankGroup>(ConnectThreads(std::move(devices), num_stages));
    group_ = group.get();
    auto checkpoint = Checkpoint::Open((*model)->options.folder);
    EXPECT_TRUE(checkpoint.ok()) << checkpoint.status();
    auto transformer = RankedTransformer::Create((*model)->description.spec, **checkpoint,
                                                 DType::kFloat32, (*model)->limits, *group);
    EXPECT_TRUE(transformer.ok()) << transformer.status();
    (*model)->transformer = *std::move(transformer);
    (*model)->backend = std::make_unique<RankedBackend>(std::move(group));
    replica_ = std::make_unique<Replica>(*std::move(model), nullptr);
  }

  void Submit(const GenerateRequest& request, std::shared_ptr<RecordingSink> sink) {
    HandIn<GenerateIntake>(request, std::move(sink), tickets_, waiting_, *replica_);
  }
  void Submit(const EncodeRequest& request, std::shared_ptr<RecordingEncodeSink> sink) {
    HandIn<EncodeIntake>(request, std::move(sink), tickets_, waiting_, *replica_);
  }
  LateBackend& backend(int rank) { return *backends_[rank]; }
  RankGroup& group() { return *group_; }
  Replica& replica() { return *replica_; }

 private:
  TicketCounter tickets_;
  WaitingCounter waiting_;
  std::vector<LateBackend*> backends_;
  RankGroup* group_ = nullptr;
  std::unique_ptr<Replica> replica_;
};

}  // namespace beamline
