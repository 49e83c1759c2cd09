// Pinned host memory through which pageable memory reaches the device: the copy into it is done
// when Copy returns, so the caller's memory is free again while the transfer is still under way.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <vector>

namespace beamline::cuda {

class StagingRing {
 public:
  // Gives `ring` num_slots pieces of pinned host memory of slot_bytes each. REQUIRES: the device is
  // current.
  static cudaError_t Create(size_t slot_bytes, int num_slots, StagingRing& ring);
  StagingRing() = default;
  ~StagingRing();
  StagingRing(const StagingRing&) = delete;
  StagingRing& operator=(const StagingRing&) = delete;

  // Bytes of any number, in pieces of a slot, which threads of the call fill side by side where
  // they are several. Waits only while every slot is still in use by earlier transfers.
  cudaError_t CopyToDevice(const void* host, void* device, size_t bytes, cudaStream_t stream);
  // Returns when the bytes have arrived.
  cudaError_t CopyToHost(const void* device, void* host, size_t bytes, cudaStream_t stream);

 private:
  struct Slot {
    char* memory = nullptr;
    cudaEvent_t sent = nullptr;
  };

  // The next slot, free to be written.
  cudaError_t NextSlot(Slot*& slot);
  // A piece of a slot's size at most, which waits for what the slot was used for before.
  static cudaError_t Send(Slot& slot, const char* host, char* device, size_t bytes,
                          cudaStream_t stream);

  int device_ = 0;
  std::vector<Slot> slots_;
  size_t slot_bytes_ = 0;
  size_t next_ = 0;
};

}  // namespace beamline::cuda
