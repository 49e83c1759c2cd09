#include "tests/gpu/host_visible_backend.h"

#include <cuda_runtime_api.h>

#include <cstring>
#include <utility>

#include "gtest/gtest.h"

namespace beamline {
namespace {

class PinnedBuffer : public Buffer {
 public:
  explicit PinnedBuffer(size_t bytes) {
    if (cudaHostAlloc(&data_, bytes, cudaHostAllocDefault) != cudaSuccess) data_ = nullptr;
    size_ = bytes;
  }
  ~PinnedBuffer() override { cudaFreeHost(data_); }
};

class HostVisibleBackend final : public Backend {
 public:
  explicit HostVisibleBackend(std::unique_ptr<Backend> cuda)
      : Backend({.key_layout = cuda->key_layout()}), cuda_(std::move(cuda)) {}

  std::string Name() const override { return cuda_->Name(); }
  std::string Description() const override { return cuda_->Description(); }
  absl::Status SupportsDType(DType dtype) const override { return cuda_->SupportsDType(dtype); }
  absl::Status SupportsHeadDim(int head_dim) const override {
    return cuda_->SupportsHeadDim(head_dim);
  }
  absl::Status SupportsHiddenSize(int hidden_size) const override {
    return cuda_->SupportsHiddenSize(hidden_size);
  }
  absl::Status MakeBatchInvariant() override { return cuda_->MakeBatchInvariant(); }
  DType ActivationDType(DType dtype) const override { return cuda_->ActivationDType(dtype); }

  absl::StatusOr<std::unique_ptr<Buffer>> Allocate(size_t bytes, MemoryKind) override {
    auto buffer = std::make_unique<PinnedBuffer>(bytes);
    if (buffer->data() == nullptr) return absl::ResourceExhaustedError("no pinned memory");
    return buffer;
  }
  void CopyToDevice(const void* host, void* device, size_t bytes) override {
    // A read-back's memory is the GPU's own, everything else the host's.
    ASSERT_EQ(cudaMemcpy(device, host, bytes, cudaMemcpyDefault), cudaSuccess);
  }
  absl::Status CopyToHost(const void* device, void* host, size_t bytes) override {
    const absl::Status status = cuda_->Synchronize();
    std::memcpy(host, device, bytes);
    return status;
  }
  absl::Status Synchronize() override { return cuda_->Synchronize(); }
  absl::StatusOr<std::unique_ptr<ReadBack>> AllocateReadBack(size_t bytes) override {
    return cuda_->AllocateReadBack(bytes);
  }
  absl::StatusOr<std::unique_ptr<PackedWeight>> PackWeight(std::span<const HostMatrix> parts,
                                                           const Precision& precision) override {
    return cuda_->PackWeight(parts, precision);
  }

  bool Records() const override { return cuda_->Records(); }
  void Replay(uint64_t key, absl::FunctionRef<void()> work) override {
    in_replay_ = true;  // nothing that is recorded may wait
    cuda_->Replay(key, work);
    in_replay_ = false;
    Finish();
  }
  void SetLog(Log log) override { cuda_->SetLog(std::move(log)); }

 private:
  void Compute(const Operation& operation) override {
    cuda_->Run(operation);
    Finish();
  }
  void Finish() {
    if (in_replay_) return;
    const absl::Status status = cuda_->Synchronize();
    ASSERT_TRUE(status.ok()) << status;
  }

  std::unique_ptr<Backend> cuda_;
  bool in_replay_ = false;
};

}  // namespace

std::unique_ptr<Backend> MakeHostVisible(std::unique_ptr<Backend> cuda) {
  return std::make_unique<HostVisibleBackend>(std::move(cuda));
}

}  // namespace beamline
