// The device of a model that several ranks hold: the first rank's, with the memory and the faults
// of all.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/transformer/rank_group.h"
#include "kernels/backend.h"

namespace beamline {

// Transfers and operators are the first rank's, for what all ranks have alike: hidden states,
// vectors, a step's results. Weights and caches are made rank by rank.
class RankedBackend final : public Backend {
 public:
  explicit RankedBackend(std::unique_ptr<RankGroup> ranks) : ranks_(std::move(ranks)) {}

  RankGroup& ranks() { return *ranks_; }

  // "cpu", or "cuda:0,cuda:1".
  std::string Name() const override;
  std::string Description() const override;
  absl::Status SupportsDType(DType dtype) const override { return first().SupportsDType(dtype); }
  absl::Status SupportsHeadDim(int head_dim) const override {
    return first().SupportsHeadDim(head_dim);
  }
  absl::Status SupportsHiddenSize(int hidden_size) const override {
    return first().SupportsHiddenSize(hidden_size);
  }
  DType ActivationDType(DType dtype) const override { return first().ActivationDType(dtype); }
  // Of all ranks together.
  std::vector<MemoryUse> MemoryUsage() const override;
  // What all ranks together may take, each as much as the others.
  std::optional<size_t> FreeMemory() const override;

  absl::StatusOr<std::unique_ptr<Buffer>> Allocate(size_t bytes, MemoryKind kind) override {
    return first().Allocate(bytes, kind);
  }
  void CopyToDevice(const void* host, void* device, size_t bytes) override {
    first().CopyToDevice(host, device, bytes);
  }
  // What a failed step has left is no result: the fault of any rank comes instead.
  absl::Status CopyToHost(const void* device, void* host, size_t bytes) override;
  absl::Status Synchronize() override;
  absl::StatusOr<std::unique_ptr<ReadBack>> AllocateReadBack(size_t bytes) override {
    return first().AllocateReadBack(bytes);
  }
  absl::StatusOr<std::unique_ptr<PackedWeight>> PackWeight(std::span<const HostMatrix> parts,
                                                           DType dtype) override {
    return first().PackWeight(parts, dtype);
  }
  void SetLog(Log log) override;
  bool Records() const override { return first().Records(); }
  void Replay(uint64_t key, absl::FunctionRef<void()> work) override { first().Replay(key, work); }

 private:
  void Compute(const Operation& operation) override { first().Run(operation); }
  Backend& first() { return ranks_->backend(0); }
  const Backend& first() const { return ranks_->backend(0); }

  const std::unique_ptr<RankGroup> ranks_;
};

}  // namespace beamline
