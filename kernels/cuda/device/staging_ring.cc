#include "kernels/cuda/device/staging_ring.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "base/in_parts.h"

namespace beamline::cuda {

cudaError_t StagingRing::Create(size_t slot_bytes, int num_slots, StagingRing& ring) {
  ring.slot_bytes_ = slot_bytes;
  if (const cudaError_t error = cudaGetDevice(&ring.device_); error != cudaSuccess) return error;
  for (int i = 0; i < num_slots; ++i) {
    Slot slot;
    if (const cudaError_t error =
            cudaMallocHost(reinterpret_cast<void**>(&slot.memory), slot_bytes);
        error != cudaSuccess) {
      return error;
    }
    const cudaError_t error = cudaEventCreateWithFlags(&slot.sent, cudaEventDisableTiming);
    ring.slots_.push_back(slot);
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

StagingRing::~StagingRing() {
  for (const Slot& slot : slots_) {
    cudaFreeHost(slot.memory);
    if (slot.sent != nullptr) cudaEventDestroy(slot.sent);
  }
}

cudaError_t StagingRing::NextSlot(Slot*& slot) {
  slot = &slots_[next_];
  next_ = (next_ + 1) % slots_.size();
  return cudaEventSynchronize(slot->sent);  // returns at once for an event that was never recorded
}

cudaError_t StagingRing::Send(Slot& slot, const char* host, char* device, size_t bytes,
                              cudaStream_t stream) {
  cudaError_t error = cudaEventSynchronize(slot.sent);
  if (error != cudaSuccess) return error;
  std::memcpy(slot.memory, host, bytes);
  error = cudaMemcpyAsync(device, slot.memory, bytes, cudaMemcpyHostToDevice, stream);
  return error == cudaSuccess ? cudaEventRecord(slot.sent, stream) : error;
}

cudaError_t StagingRing::CopyToDevice(const void* host, void* device, size_t bytes,
                                      cudaStream_t stream) {
  const auto* const from = static_cast<const char*>(host);
  auto* const to = static_cast<char*>(device);
  if (bytes <= slot_bytes_) {
    Slot& slot = slots_[next_];
    next_ = (next_ + 1) % slots_.size();
    return Send(slot, from, to, bytes, stream);
  }
  // Each part of the work below has one slot. Slot i transfers pieces i, i + slots_.size(), ...
  std::atomic<cudaError_t> failed = cudaSuccess;
  InParts(slots_.size(), 1, static_cast<int>(slots_.size()), [&](size_t slot, size_t) {
    cudaError_t error = cudaSetDevice(device_);
    for (size_t done = slot * slot_bytes_; done < bytes && error == cudaSuccess;
         done += slots_.size() * slot_bytes_) {
      error =
          Send(slots_[slot], from + done, to + done, std::min(slot_bytes_, bytes - done), stream);
    }
    if (error != cudaSuccess) failed = error;
  });
  return failed;
}

cudaError_t StagingRing::CopyToHost(const void* device, void* host, size_t bytes,
                                    cudaStream_t stream) {
  for (size_t done = 0; done < bytes; done += slot_bytes_) {
    const size_t size = std::min(slot_bytes_, bytes - done);
    Slot* slot = nullptr;
    if (const cudaError_t error = NextSlot(slot); error != cudaSuccess) return error;
    cudaError_t error = cudaMemcpyAsync(slot->memory, static_cast<const char*>(device) + done, size,
                                        cudaMemcpyDeviceToHost, stream);
    if (error == cudaSuccess) error = cudaStreamSynchronize(stream);
    if (error != cudaSuccess) return error;
    std::memcpy(static_cast<char*>(host) + done, slot->memory, size);
  }
  return cudaSuccess;
}

}  // namespace beamline::cuda
