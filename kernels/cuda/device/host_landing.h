// Small copies from the device to the host without a transfer. A kernel writes the bytes to host
// memory, then a number that the host polls. A transfer and the wait for its end take about 6 us
// more.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace beamline::cuda {

class Device;

// Where a kernel of one block writes bytes for the host, and the number that it writes after them
// (Announce, host_landing.cuh).
struct HostPlace {
  void* to = nullptr;  // null: no copy to the host
  uint32_t* arrived = nullptr;
  uint32_t number = 0;
};

// Used by the device's thread only.
class HostLanding {
 public:
  // Larger copies go through the copy engine.
  static constexpr size_t kMostBytes = size_t{16} << 10;

  HostLanding() = default;
  ~HostLanding();
  HostLanding(const HostLanding&) = delete;
  HostLanding& operator=(const HostLanding&) = delete;

  // Allocates pinned memory. REQUIRES: the device is current.
  cudaError_t Create();
  // Copies at most kMostBytes, after the work that the device's stream has. Returns when they have
  // arrived. Faults become the device's.
  void Copy(Device& device, const void* from, void* to, size_t bytes);
  // The same for at most kMostBytes that a kernel of the caller writes itself, launched with the
  // place that Begin returns. Take returns the bytes. No other copy may begin before Take, unless
  // it replaces this one.
  HostPlace Begin();
  void Take(Device& device, void* to, size_t bytes);

 private:
  static constexpr size_t kNumberBytes = 128;  // a cache line of its own

  static void Launch(Device& device, const void* from, size_t bytes, const HostPlace& place);
  bool HasArrived() const;
  // Polls until the bytes have arrived or the stream has ended. Returns the stream's fault, if any.
  cudaError_t Wait(Device& device) const;

  char* memory_ = nullptr;  // the number, then the bytes
  uint32_t number_ = 0;     // of the last copy
};

}  // namespace beamline::cuda
