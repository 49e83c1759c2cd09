#include "kernels/device_memory.h"

#include "base/field_error.h"
#include "fmt/format.h"
#include "fmt/ranges.h"

namespace beamline {
namespace {

// Shows bytes below 1 MiB, to avoid "0 MiB".
std::string MiB(size_t bytes) {
  if (bytes > 0 && bytes < (size_t{1} << 20)) return fmt::format("{} bytes", bytes);
  return fmt::format("{} MiB", bytes >> 20);
}

}  // namespace

absl::Status CheckGpuMemoryLimit(const GpuMemoryLimit& limit) {
  // This form of the comparison also refuses NaN.
  if (!(limit.fraction >= GpuMemoryLimit::kLeastFraction &&
        limit.fraction <= GpuMemoryLimit::kMostFraction)) {
    return FieldError(
        "gpu_memory_fraction", fmt::to_string(limit.fraction),
        fmt::format("{} to {}", GpuMemoryLimit::kLeastFraction, GpuMemoryLimit::kMostFraction));
  }
  return CheckInt("gpu_memory_bytes", limit.bytes, 0, GpuMemoryLimit::kMostBytes);
}

absl::StatusOr<size_t> GpuMemoryBytes(const GpuMemoryLimit& limit, const GpuMemoryState& state) {
  if (limit.bytes == 0) {
    return static_cast<size_t>(limit.fraction * static_cast<double>(state.free_bytes));
  }
  const auto bytes = static_cast<size_t>(limit.bytes);
  if (bytes <= state.free_bytes) return bytes;
  return absl::ResourceExhaustedError(
      fmt::format("gpu_memory_bytes asks for {}; GPU {} has {} of {} free: end what else uses it "
                  "(nvidia-smi lists the processes) or lower the setting",
                  MiB(bytes), state.gpu, MiB(state.free_bytes), MiB(state.total_bytes)));
}

std::string DescribeGpuMemoryLimit(const GpuMemoryLimit& limit, const GpuMemoryState& state) {
  const std::string setting = limit.bytes > 0
                                  ? fmt::format("gpu_memory_bytes {}", MiB(limit.bytes))
                                  : fmt::format("gpu_memory_fraction {}", limit.fraction);
  return fmt::format("the limit is {}; {} of the GPU's {} were free at start", setting,
                     MiB(state.free_bytes), MiB(state.total_bytes));
}

absl::Status NoMemoryLeft(size_t bytes, const std::string& use, const std::vector<MemoryUse>& uses,
                          size_t unused, size_t largest_free, const std::string& limit) {
  std::vector<std::string> used;
  for (const MemoryUse& each : uses) used.push_back(each.name + " " + MiB(each.bytes));
  const std::string pieces =
      unused >= bytes ? fmt::format(", {} at a time", MiB(largest_free)) : "";
  return absl::ResourceExhaustedError(fmt::format(
      "no {} of GPU memory for {}: all models together hold {}, and {} are left{}; {}. Raise the "
      "limit, end what else uses the GPU, or lower cache_bytes, max_batch_tokens or max_sequences",
      MiB(bytes), use, fmt::join(used, ", "), MiB(unused), pieces, limit));
}

}  // namespace beamline
