// One GPU as the operators see it: its stream, memory, scratch space, transfers and sticky error.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cuda/device/arena.h"
#include "kernels/cuda/device/staging_ring.h"
#include "kernels/cuda/device/wait_mark.h"

namespace beamline::cuda {

// Working memory of one operator call, taken piece by piece. It grows to the largest call and then
// stays: no step allocates after the largest batch.
class Scratch {
 public:
  explicit Scratch(Arena& arena) : arena_(arena) {}

  // The next operator of the stream may use everything taken so far.
  void Reset();
  // Returns at least `bytes` of device memory, valid until the next Reset. RESOURCE_EXHAUSTED as in
  // Arena::Allocate.
  absl::StatusOr<void*> Take(size_t bytes);
  // Changes when the memory moves. CUDA graphs that use the old memory cannot be replayed.
  uint64_t generation() const { return generation_; }

 private:
  Arena& arena_;
  char* memory_ = nullptr;
  size_t capacity_ = 0;
  size_t used_ = 0;
  uint64_t generation_ = 0;
  size_t least_ = 0;             // capacity that would have fitted every operator so far
  size_t taken_ = 0;             // since the last Reset, outgrown pieces included
  std::vector<void*> outgrown_;  // pieces of them are in use until the next Reset
};

class Device {
 public:
  // UNAVAILABLE without a driver or this GPU; FAILED_PRECONDITION if the GPU is older than sm_80 or
  // runs none of the build's code; RESOURCE_EXHAUSTED if it does not have the memory. `memory`
  // applies to the first device of this GPU; later ones share its memory.
  static absl::StatusOr<std::unique_ptr<Device>> Create(int index, const GpuMemoryLimit& memory);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  int index() const { return index_; }
  const cudaDeviceProp& properties() const { return properties_; }
  int num_multiprocessors() const { return properties_.multiProcessorCount; }
  // See code_architecture.h. Kernels that need sm_90 may be launched if this is 90 or more.
  int code_architecture() const { return code_architecture_; }
  // Whether kernels for sm_90a may be launched. They run on GPUs of 9.0 and on no newer ones.
  bool has_wgmma() const {
    return code_architecture_ == 90 && properties_.major == 9 && properties_.minor == 0;
  }
  // Whether a row's results must have the same bits in any batch. Operators then choose their
  // algorithms by the model alone, never by the number of rows.
  bool batch_invariant() const { return batch_invariant_; }
  void set_batch_invariant() { batch_invariant_ = true; }
  cudaStream_t stream() const { return stream_; }
  // For copies of results. The main stream does not wait for them.
  cudaStream_t read_stream() const { return read_stream_; }
  Arena& arena() { return arena_; }
  const Arena& arena() const { return arena_; }
  // Makes this GPU the calling thread's current device. Every call from outside starts with it.
  void Use();

  // The first fault since creation. All work after a fault is skipped.
  bool ok() const { return status_.ok(); }
  const absl::Status& status() const { return status_; }
  // Records a fault; `what` names the call.
  void Check(cudaError_t error, const char* what);
  void CheckLaunch(const char* kernel) { Check(cudaGetLastError(), kernel); }
  void SetError(absl::Status status);
  // Runs `work` while the stream is captured: its launches are recorded instead of executed. Faults
  // are returned and do not become the device's, because the work can still run without a capture.
  // A transfer through host memory is such a fault: a replay would repeat the values of this one
  // run.
  absl::Status Capture(absl::FunctionRef<void()> work);
  bool capturing() const { return capturing_; }
  // Whether a transfer may start: not after a fault and not in a capture. In a capture it is a
  // fault, in which `what` names the transfer.
  bool MayTransfer(const char* what);

  // Set while the calling thread may wait for the GPU. An observer may keep it longer than the
  // device.
  const std::shared_ptr<WaitMark>& wait_mark() const { return wait_mark_; }

  // Scratch memory of the operator that is being launched. BeginOperator() frees that of the
  // previous operator. Null after a fault.
  void BeginOperator() { scratch_.Reset(); }
  uint64_t scratch_generation() const { return scratch_.generation(); }
  template <typename T>
  T* TakeScratch(size_t count) {
    return static_cast<T*>(TakeScratchBytes(count * sizeof(T)));
  }
  // kNumCounters counters in device memory, 0 between operators: a kernel that counts resets them.
  static constexpr int kNumCounters = 64;
  int32_t* counters() const { return counters_; }
  // Copies host values to scratch memory of the device. The host memory may be reused on return.
  // Null after a fault.
  template <typename T>
  const T* Stage(std::span<const T> values) {
    return static_cast<const T*>(StageBytes(values.data(), values.size_bytes()));
  }

  // In stream order. The host memory may be reused, or read, on return. Faults become the device's.
  // Synchronize waits for all work of the stream.
  void CopyToDevice(const void* host, void* device, size_t bytes);
  void CopyToHost(const void* device, void* host, size_t bytes);
  absl::Status Synchronize();

 private:
  explicit Device(int index);
  absl::Status Initialize(const GpuMemoryLimit& memory);
  void* TakeScratchBytes(size_t bytes);
  const void* StageBytes(const void* host, size_t bytes);
  int index_;
  cudaDeviceProp properties_ = {};
  int code_architecture_ = 0;
  bool batch_invariant_ = false;
  cudaStream_t stream_ = nullptr;
  cudaStream_t read_stream_ = nullptr;
  int32_t* counters_ = nullptr;
  absl::Status status_;
  bool capturing_ = false;
  const std::shared_ptr<WaitMark> wait_mark_ = std::make_shared<WaitMark>();
  StagingRing small_transfers_;  // index arrays, sampling parameters, results
  StagingRing large_transfers_;  // weights
  Arena arena_;
  Scratch scratch_;
};

}  // namespace beamline::cuda
