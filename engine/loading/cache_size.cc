#include "engine/loading/cache_size.h"

#include <unistd.h>

#include <algorithm>
#include <string_view>

#include "engine/loading/model_precision.h"
#include "engine/loading/placement.h"

namespace beamline {
namespace {

// On a device that does not say how much memory is free: enough for the demo models' full batches,
// and no surprise on a laptop.
constexpr int64_t kMaxDefaultCacheBytes = int64_t{1} << 30;

int64_t PhysicalMemoryBytes() {
  return static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGE_SIZE);
}

// One word for those that mean the same device, as far as names tell.
std::string_view DeviceOf(std::string_view device) {
  return device.empty() || device == "auto" || device == "cuda" ? "cuda:0" : device;
}

bool MayUse(const ModelOptions& options, std::string_view device) {
  if (options.devices.empty()) return DeviceOf(options.device) == device;
  const auto words = SplitList(options.devices);
  return std::ranges::any_of(words, [&](const auto& word) { return DeviceOf(word) == device; });
}

bool MayMeet(const ModelOptions& one, const ModelOptions& other) {
  if (one.devices.empty()) return MayUse(other, DeviceOf(one.device));
  const auto words = SplitList(one.devices);
  return std::ranges::any_of(words,
                             [&](const auto& word) { return MayUse(other, DeviceOf(word)); });
}

bool IsVector(const CheckpointTensor& tensor) {
  return std::ranges::count_if(tensor.shape, [](int64_t size) { return size > 1; }) < 2;
}

int64_t TensorBytes(const absl::StatusOr<CheckpointTensor>& tensor, const ModelTypes& types) {
  if (!tensor.ok()) return 0;
  const DType of_matrix = types.keeps_stored ? tensor->dtype : types.precision.weights;
  const DType compute = types.precision.compute;
  const DType of_vector = compute == DType::kInt8 ? DType::kFloat32 : compute;
  const DType dtype = IsVector(*tensor) ? of_vector : of_matrix;
  return static_cast<int64_t>(tensor->size / SizeOf(tensor->dtype) * SizeOf(dtype));
}

// In bytes of `num_ranks` devices together, of which each has its part of what this model's ranks
// divide among them.
void Add(const ModelOptions& options, const Checkpoint& checkpoint, int32_t num_ranks,
         MemoryDemand& demand) {
  // Read of GPUs alone (DefaultCacheBytes).
  const ModelTypes types = TypesOf(options, checkpoint, true);
  demand.weight_bytes += WeightBytes(checkpoint, types) * num_ranks / options.tensor_parallel;
  demand.fixed_cache_bytes += options.cache_bytes * num_ranks / options.tensor_parallel;
  if (options.cache_bytes == 0) ++demand.num_open_caches;
}

}  // namespace

int64_t WeightBytes(const Checkpoint& checkpoint, const ModelTypes& types) {
  int64_t bytes = 0;
  for (const std::string& name : checkpoint.TensorNames()) {
    bytes += TensorBytes(checkpoint.Find(name), types);
  }
  return bytes;
}

int64_t MatrixBytes(const Checkpoint& checkpoint, const ModelTypes& types,
                    const std::string& name) {
  return TensorBytes(checkpoint.Find(name), types);
}

MemoryDemand MemoryDemandOf(const ModelOptions& options, const Checkpoint& checkpoint,
                            std::span<const ModelOptions> later) {
  MemoryDemand demand;
  Add(options, checkpoint, options.tensor_parallel, demand);
  for (const ModelOptions& other : later) {
    if (!MayMeet(options, other)) continue;
    const auto folder = CheckpointPath::Beneath(other.folder_root, other.folder);
    if (!folder.ok()) continue;
    const auto opened = Checkpoint::Open(*folder);
    if (opened.ok()) Add(other, **opened, options.tensor_parallel, demand);
  }
  return demand;
}

int64_t DefaultCacheBytes(std::optional<size_t> free_bytes, const MemoryDemand& demand) {
  if (!free_bytes.has_value()) return std::min(kMaxDefaultCacheBytes, PhysicalMemoryBytes() / 8);
  const int64_t left =
      static_cast<int64_t>(*free_bytes) - demand.weight_bytes - demand.fixed_cache_bytes;
  return std::max<int64_t>(left, 0) / (demand.num_open_caches + 1);
}

int64_t MostCacheBytes(std::optional<size_t> free_bytes, const MemoryDemand& demand,
                       const MemoryPlan& plan) {
  if (!free_bytes.has_value()) {
    return std::max<int64_t>(FreeHostBytes() - plan.weights - plan.activations, 0) / 2;
  }
  constexpr int64_t kPaddingShare = 50;  // of weights
  const int64_t weights = std::max(demand.weight_bytes, plan.weights);
  const int64_t left = static_cast<int64_t>(*free_bytes) - weights - weights / kPaddingShare -
                       demand.fixed_cache_bytes - plan.activations - plan.workspaces;
  return std::max<int64_t>(left, 0) / std::max(demand.num_open_caches, 1);
}

}  // namespace beamline
