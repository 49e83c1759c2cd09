// The operators on one NVIDIA GPU (sm_80 and newer).
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "kernels/backend.h"
#include "kernels/cuda/device/device.h"
#include "kernels/cuda/device/host_landing.h"
#include "kernels/cuda/device/recorder.h"
#include "kernels/cuda/epilogues/lt_matmul.h"
#include "kernels/cuda/products/product_picker.h"
#include "kernels/filled_copy.h"
#include "kernels/host_visible.h"

namespace beamline::cuda {

// Computes in float32 (without TF32), float16 and bfloat16, with float32 accumulation. Activations
// have the type of the computation. Asynchronous: all operators go to one stream.
class CudaBackend final : public Backend, public HostVisibleMemory, public FilledCopy {
 public:
  // `memory` as in Device::Create.
  static absl::StatusOr<std::unique_ptr<CudaBackend>> Create(int device,
                                                             const GpuMemoryLimit& memory = {});

  // For functions that are not operators (lt_matmul.h). They use the same stream and are called on
  // the same thread.
  Device& device() { return *device_; }
  LtMatMul& products() { return *lt_; }

  std::string Name() const override;
  std::string Description() const override;
  absl::Status SupportsDType(DType dtype) const override;
  absl::Status SupportsHeadDim(int head_dim) const override;
  absl::Status SupportsHiddenSize(int hidden_size) const override;
  absl::Status MakeBatchInvariant() override;
  DType ActivationDType(DType dtype) const override { return dtype; }
  std::vector<MemoryUse> MemoryUsage() const override;
  std::optional<size_t> FreeMemory() const override;

  using Backend::Allocate;
  absl::StatusOr<std::unique_ptr<Buffer>> Allocate(size_t bytes, MemoryKind kind) override;
  void CopyToDevice(const void* host, void* device, size_t bytes) override;
  absl::Status CopyToHost(const void* device, void* host, size_t bytes) override;
  absl::Status Synchronize() override;
  absl::StatusOr<std::unique_ptr<Buffer>> AllocateHostVisible(size_t bytes) override;
  void WaitForReaders() override;
  bool CopyAndFill(const void* host, void* device, size_t bytes,
                   const FillTokensParams& fill) override;
  absl::StatusOr<std::unique_ptr<ReadBack>> AllocateReadBack(size_t bytes) override;
  absl::StatusOr<std::unique_ptr<PackedWeight>> PackWeight(std::span<const HostMatrix> parts,
                                                           const Precision& precision) override;

  void SetLog(Log log) override;
  bool Records() const override { return true; }
  void Replay(uint64_t key, absl::FunctionRef<void()> work) override;

 private:
  CudaBackend(std::unique_ptr<Device> device, std::unique_ptr<LtMatMul> lt)
      : device_(std::move(device)), lt_(std::move(lt)), recorder_(*device_) {}
  void Compute(const Operation& operation) override;
  template <typename Params>
  void Launch(const Params& params);
  template <typename Params>
  void LaunchProduct(const Params& params);

  HostLanding landing_;  // for small copies of CopyToHost
  // Device memory that the last operator itself copies to landing_.
  const void* landed_ = nullptr;  // null: none
  size_t landed_bytes_ = 0;
  std::unique_ptr<Device> device_;
  std::unique_ptr<LtMatMul> lt_;  // frees its workspace in device_
  Recorder recorder_;
  bool may_run_ = false;  // some work since the host last waited for the stream
  Log log_;
  // The kinds of choices that log_ has received.
  absl::flat_hash_set<uint32_t> logged_;  // AttentionChoice::kind()
  absl::flat_hash_set<ProductChoice::Kind> logged_products_;
};

}  // namespace beamline::cuda
