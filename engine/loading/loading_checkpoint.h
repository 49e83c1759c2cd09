// A checkpoint that is being loaded: it tells what is asked for, and has no more tensors once
// somebody says stop, which ends the load.
#pragma once

#include <atomic>
#include <string>
#include <string_view>
#include <vector>

#include "engine/checkpoint/checkpoint.h"
#include "engine/loading/load_progress.h"

namespace beamline {

class LoadingCheckpoint final : public Checkpoint {
 public:
  // All outlive it; `stop` and `progress` may be null.
  LoadingCheckpoint(const Checkpoint& checkpoint, const std::atomic<bool>* stop,
                    LoadProgress* progress = nullptr)
      : checkpoint_(checkpoint), stop_(stop), progress_(progress) {}

  const CheckpointPath& path() const override { return checkpoint_.path(); }
  const nlohmann::json& config() const override { return checkpoint_.config(); }
  const nlohmann::json& generation_config() const override {
    return checkpoint_.generation_config();
  }
  absl::StatusOr<CheckpointTensor> Find(std::string_view name) const override {
    if (stop_ != nullptr && *stop_) return absl::CancelledError("the load was stopped");
    auto tensor = checkpoint_.Find(name);
    if (tensor.ok() && progress_ != nullptr) progress_->Ask(name, tensor->size);
    return tensor;
  }
  absl::StatusOr<CheckpointTensor> Read(std::string_view name) const override {
    if (stop_ != nullptr && *stop_) return absl::CancelledError("the load was stopped");
    auto tensor = checkpoint_.Read(name);
    if (tensor.ok() && progress_ != nullptr) progress_->Ask(name, tensor->size);
    return tensor;
  }
  absl::StatusOr<StoredTensor> FindStored(std::string_view name) const override {
    return checkpoint_.FindStored(name);
  }
  std::string weight_format() const override { return checkpoint_.weight_format(); }
  const Checkpoint& stored() const override { return checkpoint_.stored(); }
  void Release(const CheckpointTensor& tensor) const override { checkpoint_.Release(tensor); }
  bool Contains(std::string_view name) const override { return checkpoint_.Contains(name); }
  std::vector<std::string> TensorNames() const override { return checkpoint_.TensorNames(); }

 private:
  const Checkpoint& checkpoint_;
  const std::atomic<bool>* const stop_;
  LoadProgress* const progress_;
};

}  // namespace beamline
