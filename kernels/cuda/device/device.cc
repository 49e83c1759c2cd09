#include "kernels/cuda/device/device.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/math.h"
#include "base/status.h"
#include "fmt/format.h"
#include "kernels/cuda/device/code_architecture.h"
#include "kernels/cuda/device/copy_small.h"
#include "kernels/cuda/device/scratch_size.h"

namespace beamline::cuda {
namespace {

constexpr size_t kSmallSlotBytes = size_t{64} << 10;
constexpr int kNumSmallSlots = 64;
// Filled by kNumLargeSlots threads, for weights: one thread copies about 8 GB/s, a GPU takes 50.
constexpr size_t kLargeSlotBytes = size_t{4} << 20;
constexpr int kNumLargeSlots = 8;
constexpr int kOldestMajor = 8;  // sm_80: bfloat16 and cp.async

}  // namespace

void Scratch::Reset() {
  for (void* memory : outgrown_) arena_.Free(memory);
  outgrown_.clear();
  // The next operator that needs as much as the last one gets it in one piece.
  least_ = std::max(least_, taken_);
  if (capacity_ < least_ && memory_ != nullptr) {
    arena_.Free(memory_);
    memory_ = nullptr;
    capacity_ = 0;
    ++generation_;
  }
  used_ = taken_ = 0;
}

absl::StatusOr<void*> Scratch::Take(size_t bytes) {
  bytes = RoundUp(bytes, Arena::kAlignment);
  taken_ += bytes;
  if (used_ + bytes > capacity_) {
    const size_t capacity =
        std::max({kFirstScratchBytes, least_, taken_, capacity_ + capacity_ / 2});
    BEAMLINE_ASSIGN_OR_RETURN(void* memory, arena_.Allocate(capacity, ArenaUse::kWorkspace));
    if (memory_ != nullptr) outgrown_.push_back(memory_);
    memory_ = static_cast<char*>(memory);
    capacity_ = capacity;
    ++generation_;
    used_ = 0;
  }
  void* const piece = memory_ + used_;
  used_ += bytes;
  return piece;
}

absl::StatusOr<std::unique_ptr<Device>> Device::Create(int index, const GpuMemoryLimit& memory) {
  int count = 0;
  if (const cudaError_t error = cudaGetDeviceCount(&count); error != cudaSuccess) {
    cudaGetLastError();
    return absl::UnavailableError(
        fmt::format("the CUDA driver reports no usable GPU: {}", cudaGetErrorString(error)));
  }
  if (index < 0 || index >= count) {
    return absl::UnavailableError(fmt::format("GPU {} was asked for; this machine has {} (0 .. {})",
                                              index, count, count - 1));
  }
  std::unique_ptr<Device> device(new Device(index));
  BEAMLINE_RETURN_IF_ERROR(device->Initialize(memory));
  return device;
}

Device::Device(int index) : index_(index), scratch_(arena_) {}

absl::Status Device::Initialize(const GpuMemoryLimit& memory) {
  Use();
  Check(cudaGetDeviceProperties(&properties_, index_), "cudaGetDeviceProperties");
  if (!ok()) return status_;
  if (properties_.major < kOldestMajor) {
    return absl::FailedPreconditionError(
        fmt::format("GPU {} ({}) has compute capability {}.{}; 8.0 or newer is needed", index_,
                    properties_.name, properties_.major, properties_.minor));
  }
  Check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate");
  Check(cudaStreamCreateWithFlags(&read_stream_, cudaStreamNonBlocking), "cudaStreamCreate");
  if (!ok()) return status_;
  if (const cudaError_t error = FindCodeArchitecture(&code_architecture_); error != cudaSuccess) {
    return absl::FailedPreconditionError(fmt::format(
        "GPU {} ({}, compute capability {}.{}) runs none of this build's code, which is for {}: {}",
        index_, properties_.name, properties_.major, properties_.minor, BEAMLINE_CUDA_ARCHITECTURES,
        cudaGetErrorString(error)));
  }
  Check(StagingRing::Create(kSmallSlotBytes, kNumSmallSlots, small_transfers_), "cudaMallocHost");
  Check(StagingRing::Create(kLargeSlotBytes, kNumLargeSlots, large_transfers_), "cudaMallocHost");
  constexpr size_t kCounterBytes = kNumCounters * sizeof(int32_t);
  Check(cudaMalloc(reinterpret_cast<void**>(&counters_), kCounterBytes), "cudaMalloc");
  if (ok()) Check(cudaMemsetAsync(counters_, 0, kCounterBytes, stream_), "cudaMemsetAsync");
  if (ok()) SetError(arena_.Open(index_, memory));
  return status_;
}

Device::~Device() {
  Use();
  if (stream_ == nullptr) return;
  const WaitMark::Scope waiting(*wait_mark_);
  cudaStreamSynchronize(stream_);
  cudaFree(counters_);
  if (read_stream_ != nullptr) cudaStreamDestroy(read_stream_);
  cudaStreamDestroy(stream_);
}

void Device::Use() {
  static thread_local int current = -1;
  if (current == index_) return;
  Check(cudaSetDevice(index_), "cudaSetDevice");
  current = index_;
}

void Device::Check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  const std::string message = fmt::format("GPU {}: {}: {} ({})", index_, what,
                                          cudaGetErrorString(error), cudaGetErrorName(error));
  if (error != cudaErrorMemoryAllocation) return SetError(absl::UnavailableError(message));
  // Operators allocate from the arena. So this error means that the driver's own memory, or pinned
  // host memory, is exhausted.
  SetError(absl::ResourceExhaustedError(
      message +
      "; end what else uses the GPU (nvidia-smi lists the processes) or leave the driver "
      "more: lower gpu_memory_fraction or gpu_memory_bytes"));
}

void Device::SetError(absl::Status status) { status_.Update(status); }

absl::Status Device::Capture(absl::FunctionRef<void()> work) {
  BEAMLINE_CHECK(ok() && !capturing_);
  capturing_ = true;
  work();
  capturing_ = false;
  return std::exchange(status_, absl::OkStatus());
}

bool Device::MayTransfer(const char* what) {
  if (ok() && capturing_) {
    SetError(absl::FailedPreconditionError(
        fmt::format("{} is part of a recording; accepted: work whose values lie on the device "
                    "before it is recorded",
                    what)));
  }
  return ok();
}

void* Device::TakeScratchBytes(size_t bytes) {
  if (!ok()) return nullptr;
  absl::StatusOr<void*> memory = scratch_.Take(bytes);
  if (memory.ok()) return *memory;
  SetError(memory.status());
  return nullptr;
}

const void* Device::StageBytes(const void* host, size_t bytes) {
  void* const device = TakeScratchBytes(bytes);
  if (device != nullptr) CopyToDevice(host, device, bytes);
  return device;
}

void Device::CopyToDevice(const void* host, void* device, size_t bytes) {
  if (!MayTransfer("a copy to the device")) return;
  if (bytes <= kMostCopySmallBytes) return CopySmall(*this, host, device, bytes);
  const WaitMark::Scope waiting(*wait_mark_);
  StagingRing& ring = bytes <= kSmallSlotBytes ? small_transfers_ : large_transfers_;
  Check(ring.CopyToDevice(host, device, bytes, stream_), "copy to the device");
}

void Device::CopyToHost(const void* device, void* host, size_t bytes) {
  if (!MayTransfer("a copy to the host")) return;
  const WaitMark::Scope waiting(*wait_mark_);
  StagingRing& ring = bytes <= kSmallSlotBytes ? small_transfers_ : large_transfers_;
  Check(ring.CopyToHost(device, host, bytes, stream_), "copy to the host");
}

absl::Status Device::Synchronize() {
  if (!MayTransfer("a wait for the device")) return status_;
  const uint64_t num_frees = arena_.num_frees();
  const WaitMark::Scope waiting(*wait_mark_);
  Check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
  if (ok()) arena_.Settle(num_frees);
  return status_;
}

}  // namespace beamline::cuda
