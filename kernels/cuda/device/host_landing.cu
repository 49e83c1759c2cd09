#include "kernels/cuda/device/host_landing.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

#include "base/check.h"
#include "kernels/cuda/device/host_landing.cuh"
#include "kernels/cuda/device/launch.cuh"

namespace beamline::cuda {
namespace {

// Polling time between two queries of the driver, which reports faults and takes a lock.
constexpr std::chrono::microseconds kLookTime{50};

// Grid: one block. Bound by its launch and the way to the host.
template <typename Unit>
__global__ void LandKernel(const Unit* from, int count, HostPlace place) {
  WaitForEarlierKernels();
  for (int i = static_cast<int>(threadIdx.x); i < count; i += static_cast<int>(blockDim.x)) {
    static_cast<Unit*>(place.to)[i] = from[i];
  }
  Announce(place);
}

template <typename Unit>
bool AreWhole(const void* from, size_t bytes) {
  return bytes % sizeof(Unit) == 0 && reinterpret_cast<uintptr_t>(from) % sizeof(Unit) == 0;
}

}  // namespace

HostLanding::~HostLanding() {
  if (memory_ != nullptr) cudaFreeHost(memory_);
}

cudaError_t HostLanding::Create() {
  BEAMLINE_CHECK(memory_ == nullptr);
  void* memory = nullptr;
  const cudaError_t error = cudaHostAlloc(&memory, kNumberBytes + kMostBytes,
                                          cudaHostAllocMapped | cudaHostAllocPortable);
  if (error != cudaSuccess) return error;
  memory_ = static_cast<char*>(memory);
  *reinterpret_cast<uint32_t*>(memory_) = number_;
  return cudaSuccess;
}

void HostLanding::Copy(Device& device, const void* from, void* to, size_t bytes) {
  BEAMLINE_CHECK(bytes <= kMostBytes);
  Launch(device, from, bytes, Begin());
  Take(device, to, bytes);
}

HostPlace HostLanding::Begin() {
  return {memory_ + kNumberBytes, reinterpret_cast<uint32_t*>(memory_), ++number_};
}

void HostLanding::Take(Device& device, void* to, size_t bytes) {
  BEAMLINE_CHECK(bytes <= kMostBytes);
  device.Check(Wait(device), "a small copy to the host");
  if (device.ok()) std::memcpy(to, memory_ + kNumberBytes, bytes);
}

void HostLanding::Launch(Device& device, const void* from, size_t bytes, const HostPlace& place) {
  const auto launch = [&]<typename Unit>() {
    const int count = static_cast<int>(bytes / sizeof(Unit));
    LaunchOverlapped(device, "a small copy to the host", LandKernel<Unit>, 1,
                     ThreadsFor(std::max(count, 1), /*most=*/1024), /*shared_bytes=*/0,
                     static_cast<const Unit*>(from), count, place);
  };
  if (AreWhole<uint4>(from, bytes)) {
    launch.template operator()<uint4>();
  } else if (AreWhole<uint32_t>(from, bytes)) {
    launch.template operator()<uint32_t>();
  } else {
    launch.template operator()<char>();
  }
}

bool HostLanding::HasArrived() const {
  const std::atomic_ref<uint32_t> arrived(*reinterpret_cast<uint32_t*>(memory_));
  return arrived.load(std::memory_order_acquire) == number_;
}

cudaError_t HostLanding::Wait(Device& device) const {
  while (true) {
    const auto end = std::chrono::steady_clock::now() + kLookTime;
    do {
      for (int i = 0; i < 32; ++i) {
        if (HasArrived()) return cudaSuccess;
      }
    } while (std::chrono::steady_clock::now() < end);
    const cudaError_t state = cudaStreamQuery(device.stream());
    if (state != cudaErrorNotReady) return state;
    cudaGetLastError();  // clears "not ready", no fault, which the next check would report
    std::this_thread::yield();
  }
}

}  // namespace beamline::cuda
