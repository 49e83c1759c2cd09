#include "engine/loading/make_backend.h"

#include <algorithm>
#include <charconv>
#include <system_error>
#include <utility>

#include "base/field_error.h"
#include "base/status.h"
#include "fmt/format.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cuda_loader.h"

namespace beamline {
namespace {

constexpr std::string_view kCuda = "cuda";

absl::StatusOr<std::unique_ptr<Backend>> MakeSupporting(
    absl::StatusOr<std::unique_ptr<Backend>> backend, const Precision& precision,
    const ModelNeeds& needs) {
  if (!backend.ok()) return backend;
  BEAMLINE_RETURN_IF_ERROR((*backend)->SupportsPrecision(precision));
  BEAMLINE_RETURN_IF_ERROR((*backend)->SupportsHeadDim(needs.head_dim));
  BEAMLINE_RETURN_IF_ERROR((*backend)->SupportsHiddenSize(needs.hidden_size));
  if (needs.batch_invariant) BEAMLINE_RETURN_IF_ERROR((*backend)->MakeBatchInvariant());
  return backend;
}

absl::StatusOr<std::unique_ptr<Backend>> MakeCpu(const ModelNeeds& needs, const CpuShare& cpu) {
  return MakeSupporting(MakeCpuBackend({.num_threads = cpu.num_threads, .cores = cpu.cores}),
                        needs.precision, needs);
}

absl::StatusOr<std::unique_ptr<Backend>> MakeGpu(int index, const ModelNeeds& needs,
                                                 const GpuMemoryLimit& memory) {
  return MakeSupporting(MakeCudaBackend(index, memory), needs.on_gpu.value_or(needs.precision),
                        needs);
}

// The number of "cuda" or "cuda:N".
absl::StatusOr<int> GpuIndex(std::string_view device) {
  if (device == kCuda) return 0;
  int index = -1;
  const std::string_view digits = device.substr(std::min(device.size(), kCuda.size() + 1));
  const auto [end, error] = std::from_chars(digits.begin(), digits.end(), index);
  if (!device.starts_with("cuda:") || error != std::errc() || end != digits.end() || index < 0) {
    return FieldError("device", fmt::format("'{}'", device),
                      "auto, cpu, cuda, cuda:0, cuda:1, ...");
  }
  return index;
}

}  // namespace

absl::StatusOr<ChosenBackend> MakeBackend(std::string_view device, const ModelNeeds& needs,
                                          const CpuShare& cpu, const GpuMemoryLimit& memory) {
  ChosenBackend chosen;
  if (device == "cpu") {
    BEAMLINE_ASSIGN_OR_RETURN(chosen.backend, MakeCpu(needs, cpu));
    chosen.reason = "the CPU was asked for";
    return chosen;
  }
  if (device != "auto") {
    BEAMLINE_ASSIGN_OR_RETURN(const int index, GpuIndex(device));
    auto gpu = MakeGpu(index, needs, memory);
    if (!gpu.ok()) {
      return absl::Status(gpu.status().code(),
                          fmt::format("device is '{}', which does not work here: {}", device,
                                      std::string(gpu.status().message())));
    }
    chosen.backend = *std::move(gpu);
    chosen.is_gpu = true;
    chosen.reason = "the GPU was asked for";
    return chosen;
  }
  auto gpu = MakeGpu(0, needs, memory);
  if (gpu.ok()) {
    chosen.backend = *std::move(gpu);
    chosen.is_gpu = true;
    chosen.reason = "a GPU is there";
    return chosen;
  }
  // A GPU that is there and full is for the operator to look at: the CPU would be slow in silence.
  if (absl::IsResourceExhausted(gpu.status())) return gpu.status();
  BEAMLINE_ASSIGN_OR_RETURN(chosen.backend, MakeCpu(needs, cpu));
  chosen.reason = std::string(gpu.status().message());
  return chosen;
}

}  // namespace beamline
