#include "engine/api/gpu_need.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "engine/loading/loaded_model.h"
#include "engine/loading/model_limits.h"
#include "engine/loading/model_options_check.h"
#include "engine/loading/placement.h"
#include "kernels/cuda_loader.h"

namespace beamline {
namespace {

// What packing pads, results on their way to the host, and pieces too small for a buffer.
constexpr int64_t kExtraShare = 16;
constexpr int64_t kExtraBytes = int64_t{256} << 20;

bool HasGpus() {
  const absl::StatusOr<int> count = CountCudaDevices();
  return count.ok() && *count > 0;
}

// "cuda:N"; empty: none.
std::string GpuOf(const std::string& device) {
  if (device == "cpu") return "";
  if (device == "cuda") return "cuda:0";
  if (device == "auto") return HasGpus() ? "cuda:0" : "";
  return device;
}

std::optional<int64_t> BytesOf(const ModelOptions& options) {
  if (!CheckModelOptions(options).ok()) return std::nullopt;
  LoadedModel model;
  model.options = options;
  const auto checkpoint = ReadFolder(model);
  if (!checkpoint.ok()) return std::nullopt;
  if (model.description.spec.decoder.has_value() && options.cache_bytes == 0) return std::nullopt;
  const auto plan = PlanOnGpu(**checkpoint, model);
  if (!plan.ok()) return std::nullopt;
  return plan->total() + plan->total() / kExtraShare + kExtraBytes;
}

}  // namespace

std::optional<int64_t> NeededGpuBytes(const EngineOptions& options) {
  if (options.processes.port != 0) return std::nullopt;
  std::map<std::string, int64_t> bytes;  // by GPU
  for (const ModelOptions& model : options.models) {
    if (model.num_ranks() > 1) return std::nullopt;
    const auto placements = PlaceReplicas(model, options.num_threads);
    if (!placements.ok()) return std::nullopt;
    std::optional<int64_t> of_model;
    for (const ReplicaPlacement& placement : *placements) {
      const std::string gpu = GpuOf(placement.devices.front());
      if (gpu.empty()) continue;
      if (!of_model.has_value()) of_model = BytesOf(OptionsThere(model, placement));
      if (!of_model.has_value()) return std::nullopt;
      bytes[gpu] += *of_model;
    }
  }
  const auto most =
      std::ranges::max_element(bytes, {}, [](const auto& of_gpu) { return of_gpu.second; });
  return most == bytes.end() ? std::nullopt : std::optional(most->second);
}

}  // namespace beamline
