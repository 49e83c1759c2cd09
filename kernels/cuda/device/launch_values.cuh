// Host values that a kernel reads. Few travel with its launch, as a parameter: a transfer costs the
// stream what a small kernel costs it, and the kernel behind it its early start. More are staged.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "base/math.h"
#include "kernels/cuda/device/device.h"

namespace beamline::cuda {

inline constexpr size_t kMostLaunchBytes = 2 << 10;  // of the 4 KiB that all parameters may have

// A kernel takes it as `const __grid_constant__`. Arrays are named by their offset.
struct LaunchValues {
  const char* staged;  // null: the values are `own`
  alignas(16) char own[kMostLaunchBytes];

  // By value: parameters and memory have load instructions of their own.
  template <typename T>
  __device__ T Get(int offset, int index) const {
    if (staged != nullptr) return reinterpret_cast<const T*>(staged + offset)[index];
    return reinterpret_cast<const T*>(own + offset)[index];
  }
};

// Gathers the arrays of one launch.
class LaunchValuesBuilder {
 public:
  // The offset of the array, a multiple of 16 bytes.
  template <typename T>
  int Add(std::span<T> values) {
    const size_t offset = RoundUp(bytes_.size(), size_t{16});
    bytes_.resize(offset + values.size_bytes());
    if (!values.empty()) std::memcpy(bytes_.data() + offset, values.data(), values.size_bytes());
    return static_cast<int>(offset);
  }

  // In scratch memory of the device, whatever their size; null after a fault.
  const char* Stage(Device& device) const { return device.Stage(std::span<const char>(bytes_)); }
  // Faults in a recording, which would repeat the values.
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
