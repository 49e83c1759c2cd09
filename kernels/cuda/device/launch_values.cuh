// Host values that a kernel reads. A small number of them is passed as a parameter of the launch: a
// transfer costs the stream as much time as a small kernel and keeps the next kernel from starting
// early. More of them are staged in device memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "base/math.h"
#include "kernels/cuda/device/device.h"

namespace beamline::cuda {

inline constexpr size_t kMostLaunchBytes = 2 << 10;  // of the 4 KiB limit of all parameters

// A `const __grid_constant__` parameter of a kernel. Arrays are identified by their offset in
// bytes.
struct LaunchValues {
  const char* staged;  // null: the values are `own`
  alignas(16) char own[kMostLaunchBytes];

  // By value, because parameters and device memory are read by different instructions.
  template <typename T>
  __device__ T Get(int offset, int index) const {
    if (staged != nullptr) return reinterpret_cast<const T*>(staged + offset)[index];
    return reinterpret_cast<const T*>(own + offset)[index];
  }
};

// Gathers the arrays of one launch.
class LaunchValuesBuilder {
 public:
  // Appends an array. Returns its offset, a multiple of 16 bytes.
  template <typename T>
  int Add(std::span<T> values) {
    const size_t offset = RoundUp(bytes_.size(), size_t{16});
    bytes_.resize(offset + values.size_bytes());
    if (!values.empty()) std::memcpy(bytes_.data() + offset, values.data(), values.size_bytes());
    return static_cast<int>(offset);
  }

  // Copies the arrays to scratch memory of the device, whatever their size; null after a fault.
  const char* Stage(Device& device) const { return device.Stage(std::span<const char>(bytes_)); }
  // Fills `values`. A fault of the device in a capture, because a replay would repeat these values.
  void Send(Device& device, LaunchValues& values) const {
    values.staged = nullptr;
    if (bytes_.size() > kMostLaunchBytes) {
      values.staged = Stage(device);
      return;
    }
    if (!device.MayTransfer("a launch with values of the host")) return;
    if (!bytes_.empty()) std::memcpy(values.own, bytes_.data(), bytes_.size());
  }

 private:
  std::vector<char> bytes_;
};

}  // namespace beamline::cuda
