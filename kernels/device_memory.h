// A device's memory from its owner's view: how much to take, and what it is used for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace beamline {

// Device memory in use by category: "weights", "cache", "activations" or "workspaces".
struct MemoryUse {
  std::string name;
  size_t bytes = 0;
};

// How much of a GPU's memory the process takes, once, for all its backends there.
struct GpuMemoryLimit {
  static constexpr double kLeastFraction = 0.01, kMostFraction = 0.99;
  static constexpr int64_t kMostBytes = int64_t{1} << 50;

  double fraction = 0.9;  // of the free memory when the first backend opens the GPU
  int64_t bytes = 0;      // instead of `fraction`; 0: use `fraction`
};

// INVALID_ARGUMENT naming the setting, its value and the accepted range.
absl::Status CheckGpuMemoryLimit(const GpuMemoryLimit& limit);

// What the driver reported of a GPU before its memory was taken.
struct GpuMemoryState {
  int gpu = 0;
  size_t free_bytes = 0;
  size_t total_bytes = 0;
};

// The bytes to take. RESOURCE_EXHAUSTED if fewer are free.
absl::StatusOr<size_t> GpuMemoryBytes(const GpuMemoryLimit& limit, const GpuMemoryState& state);

// The limit and its source, as a clause for NoMemoryLeft.
std::string DescribeGpuMemoryLimit(const GpuMemoryLimit& limit, const GpuMemoryState& state);

// RESOURCE_EXHAUSTED for `bytes` of category `use` that do not fit. `uses`: of all backends
// together. `limit`: from DescribeGpuMemoryLimit. `largest_free`: size of the largest free range.
absl::Status NoMemoryLeft(size_t bytes, const std::string& use, const std::vector<MemoryUse>& uses,
                          size_t unused, size_t largest_free, const std::string& limit);

}  // namespace beamline
