// Pinned host memory for transfers of pageable memory. CopyToDevice returns when the data is copied
// into it. So the caller may reuse its memory while the transfer is still in flight.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <vector>

namespace beamline::cuda {

class StagingRing {
 public:
  // Allocates num_slots slots of slot_bytes of pinned host memory for `ring`. REQUIRES: the device
  // is current.
  static cudaError_t Create(size_t slot_bytes, int num_slots, StagingRing& ring);
  StagingRing() = default;
  ~StagingRing();
  StagingRing(const StagingRing&) = delete;
  StagingRing& operator=(const StagingRing&) = delete;

  // Any number of bytes, in pieces of a slot. If there are several pieces, threads of the call fill
  // the slots in parallel. Waits only while every slot is still in use by earlier transfers.
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
  // Transfers at most slot_bytes. First waits for the previous transfer of the slot.
  static cudaError_t Send(Slot& slot, const char* host, char* device, size_t bytes,
                          cudaStream_t stream);

  int device_ = 0;
  std::vector<Slot> slots_;
  size_t slot_bytes_ = 0;
  size_t next_ = 0;
};

}  // namespace beamline::cuda
