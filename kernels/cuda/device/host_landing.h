// Few bytes from the device to the host without a transfer: a kernel writes them to memory of the
// host, and a number behind them that the host looks for. A transfer and the wait for its end take
// some 6 us more.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace beamline::cuda {

class Device;

// Where a kernel of one block puts bytes for the host, and what it writes behind them (Announce,
// host_landing.cuh).
struct HostPlace {
  void* to = nullptr;  // null: nowhere
  uint32_t* arrived = nullptr;
  uint32_t number = 0;
};

// Used by the thread that calls its device.
class HostLanding {
 public:
  // More are the copy engine's.
  static constexpr size_t kMostBytes = size_t{16} << 10;

  HostLanding() = default;
  ~HostLanding();
  HostLanding(const HostLanding&) = delete;
  HostLanding& operator=(const HostLanding&) = delete;

  // Takes pinned memory. REQUIRES: the device is current.
  cudaError_t Create();
  // Copies at most kMostBytes, behind what the device's stream has, and returns when they have
  // arrived. Faults are the device's.
  void Copy(Device& device, const void* from, void* to, size_t bytes);
  // The same of at most kMostBytes that a kernel puts here itself, launched with the place that
  // Begin returns. Nothing else is begun before Take, unless it is in that one's place.
  HostPlace Begin();
  void Take(Device& device, void* to, size_t bytes);

 private:
  static constexpr size_t kNumberBytes = 128;  // a line of its own

  static void Launch(Device& device, const void* from, size_t bytes, const HostPlace& place);
  bool HasArrived() const;
  // Looks until they have, or the stream has ended otherwise: that fault is the answer.
  cudaError_t Wait(Device& device) const;

  char* memory_ = nullptr;  // the number, then the bytes
  uint32_t number_ = 0;     // of the last copy
};

}  // namespace beamline::cuda
