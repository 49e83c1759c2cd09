// Results read while the device works on: pinned host memory, and an event after the copy.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>

#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "kernels/cuda/device/device.h"

namespace beamline::cuda {

class CudaReadBack final : public ReadBack {
 public:
  // `device` outlives the result. RESOURCE_EXHAUSTED if `bytes` of device memory or of pinned host
  // memory are not available.
  static absl::StatusOr<std::unique_ptr<ReadBack>> Create(Device& device, size_t bytes);
  ~CudaReadBack() override;

  void Start(size_t bytes) override;
  bool Done() override;
  absl::Status Wait() override;

 private:
  explicit CudaReadBack(Device& device) : owner_(device) {}
  // Handles the state of arrived_. cudaSuccess: all that the stream had before the event is done.
  void Arrived(cudaError_t answer);

  Device& owner_;
  void* pinned_ = nullptr;
  cudaEvent_t written_ = nullptr, arrived_ = nullptr;
  uint64_t num_frees_ = 0;  // the arena's when arrived_ was recorded
};

}  // namespace beamline::cuda
