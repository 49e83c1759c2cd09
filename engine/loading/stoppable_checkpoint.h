// A checkpoint that has no more tensors once somebody says stop, which ends the load that reads it.
#pragma once

#include <atomic>
#include <string>
#include <string_view>
#include <vector>

#include "engine/checkpoint/checkpoint.h"

namespace beamline {

class StoppableCheckpoint final : public Checkpoint {
 public:
  // `checkpoint` and `stop` outlive it; `stop` may be null.
  StoppableCheckpoint(const Checkpoint& checkpoint, const std::atomic<bool>* stop)
      : checkpoint_(checkpoint), stop_(stop) {}

  const std::string& folder() const override { return checkpoint_.folder(); }
  const nlohmann::json& config() const override { return checkpoint_.config(); }
  const nlohmann::json& generation_config() const override {
    return checkpoint_.generation_config();
  }
  absl::StatusOr<CheckpointTensor> Find(std::string_view name) const override {
    if (stop_ != nullptr && *stop_) return absl::CancelledError("the load was stopped");
    return checkpoint_.Find(name);
  }
  bool Contains(std::string_view name) const override { return checkpoint_.Contains(name); }
  std::vector<std::string> TensorNames() const override { return checkpoint_.TensorNames(); }

 private:
  const Checkpoint& checkpoint_;
  const std::atomic<bool>* const stop_;
};

}  // namespace beamline
