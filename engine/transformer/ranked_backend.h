// The device of a model that several ranks hold: that of the rank that has the results, with the
// memory and the faults of all.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/transformer/rank_group.h"
#include "kernels/backend.h"

namespace beamline {

// A fault with this payload is that of another process, or of the connections: the devices of this
// one go on working.
inline constexpr char kDeviceWholePayload[] = "beamline.device_whole";

// The first fault of a rank, and with it, where that is another one, the fault in which its device
// is: a device that ends with another rank's loss says why nothing is left of this one either.
absl::Status WithDeviceFault(const absl::Status& fault, const absl::Status& of_device);

// Transfers and operators are those of the first rank of the last stage, for what is the model's:
// last hidden states, vectors, a step's results. Weights and caches are made rank by rank.
class RankedBackend final : public Backend {
 public:
  // `least_free_elsewhere`: of the devices of other processes, what the fullest one has free.
  explicit RankedBackend(std::unique_ptr<RankGroup> ranks,
                         std::optional<size_t> least_free_elsewhere = std::nullopt)
      : Backend({.key_layout = ranks->backend(ranks->result_rank()).key_layout()}),
        ranks_(std::move(ranks)),
        least_free_elsewhere_(least_free_elsewhere) {}

  RankGroup& ranks() { return *ranks_; }

  // "cpu", or "cuda:0,cuda:1".
  std::string Name() const override;
  std::string Description() const override;
  absl::Status SupportsDType(DType dtype) const override { return result().SupportsDType(dtype); }
  absl::Status SupportsHeadDim(int head_dim) const override {
    return result().SupportsHeadDim(head_dim);
  }
  absl::Status SupportsHiddenSize(int hidden_size) const override {
    return result().SupportsHiddenSize(hidden_size);
  }
  absl::Status SupportsPrecision(const Precision& precision) const override {
    return result().SupportsPrecision(precision);
  }
  absl::Status MakeBatchInvariant() override {
    return absl::UnimplementedError("ranks are made so before they are connected");
  }
  DType ActivationDType(DType dtype) const override { return result().ActivationDType(dtype); }
  // Of all ranks of this process together.
  std::vector<MemoryUse> MemoryUsage() const override;
  // What all ranks together may take, each as much as the others.
  std::optional<size_t> FreeMemory() const override;

  absl::StatusOr<std::unique_ptr<Buffer>> Allocate(size_t bytes, MemoryKind kind) override {
    return result().Allocate(bytes, kind);
  }
  void CopyToDevice(const void* host, void* device, size_t bytes) override {
    result().CopyToDevice(host, device, bytes);
  }
  // What a failed step has left is no result: the fault of any rank comes instead.
  absl::Status CopyToHost(const void* device, void* host, size_t bytes) override;
  // The fault of a process that is lost has kDeviceWholePayload, unless a device here is at fault
  // too: then it names both.
  absl::Status Synchronize() override;
  absl::StatusOr<std::unique_ptr<ReadBack>> AllocateReadBack(size_t bytes) override {
    return result().AllocateReadBack(bytes);
  }
  absl::StatusOr<std::unique_ptr<PackedWeight>> PackWeight(std::span<const HostMatrix> parts,
                                                           const Precision& precision) override {
    return result().PackWeight(parts, precision);
  }
  void SetLog(Log log) override;
  bool Records() const override { return result().Records(); }
  void Replay(uint64_t key, absl::FunctionRef<void()> work) override { result().Replay(key, work); }

 private:
  void Compute(const Operation& operation) override { result().Run(operation); }
  Backend& result() { return ranks_->backend(ranks_->result_rank()); }
  const Backend& result() const { return ranks_->backend(ranks_->result_rank()); }

  const std::unique_ptr<RankGroup> ranks_;
  const std::optional<size_t> least_free_elsewhere_;
};

}  // namespace beamline
