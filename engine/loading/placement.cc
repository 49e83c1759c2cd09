#include "engine/loading/placement.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "base/field_error.h"
#include "base/status.h"
#include "engine/api/model_settings.h"
#include "fmt/format.h"
#include "kernels/cpu/core_sets.h"
#include "kernels/cpu/cpu_count.h"
#include "kernels/cuda_loader.h"

namespace beamline {
namespace {

constexpr std::string_view kCpu = "cpu";
constexpr std::string_view kListed = "cpu, or GPUs as cuda:0, cuda:1, each once";

bool IsAuto(std::string_view text) { return text.empty() || text == "auto"; }

absl::Status BadDevices(const ModelOptions& options) {
  return FieldError("devices", fmt::format("'{}'", options.devices), kListed);
}

absl::Status TooManyReplicas(const ModelOptions& options, size_t most, std::string_view why) {
  return FieldError("replicas", fmt::format("'{}'", options.replicas),
                    most == 1 ? fmt::format("1{}", why) : fmt::format("1 to {}{}", most, why));
}

// Devices as MakeBackend takes them, no two the same.
absl::StatusOr<std::vector<std::string>> ListedDevices(const ModelOptions& options) {
  constexpr std::array<std::string_view, 2> kGpus = {"cuda", "cuda:N"};
  std::vector<std::string> devices = SplitList(options.devices);
  for (std::string& device : devices) {
    if (device == kCpu && devices.size() == 1) continue;
    if (!CheckChoice("devices", device, kGpus).ok()) return BadDevices(options);
    if (device == "cuda") device = "cuda:0";
  }
  std::vector<std::string> sorted = devices;
  std::ranges::sort(sorted);
  if (std::ranges::adjacent_find(sorted) != sorted.end()) return BadDevices(options);
  return devices;
}

// REQUIRES: CheckModelOptions passed. 0: auto.
size_t AskedReplicas(const ModelOptions& options) {
  size_t number = 0;
  if (IsAuto(options.replicas)) return number;
  std::from_chars(options.replicas.data(), options.replicas.data() + options.replicas.size(),
                  number);
  return number;
}

// The devices of `asked` replicas of a model that names one device or none.
absl::StatusOr<std::vector<std::string>> DevicesWithoutList(const ModelOptions& options,
                                                            size_t asked) {
  const std::string device = options.device.empty() ? "auto" : options.device;
  if (asked <= 1 || device == kCpu) return std::vector(std::max<size_t>(asked, 1), device);
  if (device != "auto") {
    return TooManyReplicas(options, 1,
                           fmt::format(", as device is '{}'; devices names several GPUs", device));
  }
  const absl::StatusOr<int> gpus = CountCudaDevices();
  if (!gpus.ok() || *gpus == 0) return std::vector(asked, std::string(kCpu));
  if (asked > static_cast<size_t>(*gpus)) {
    return TooManyReplicas(options, static_cast<size_t>(*gpus), ", the GPUs that are there");
  }
  std::vector<std::string> devices;
  for (size_t i = 0; i < asked; ++i) devices.push_back(fmt::format("cuda:{}", i));
  return devices;
}

}  // namespace

std::vector<std::string> SplitList(std::string_view list) {
  std::vector<std::string> words;
  for (size_t begin = 0; !list.empty() && begin <= list.size();) {
    const size_t end = std::min(list.find(',', begin), list.size());
    std::string_view word = list.substr(begin, end - begin);
    while (word.starts_with(' ')) word.remove_prefix(1);
    while (word.ends_with(' ')) word.remove_suffix(1);
    words.emplace_back(word);
    begin = end + 1;
  }
  return words;
}

absl::Status CheckReplicas(const ModelOptions& options) {
  if (options.devices.empty()) return absl::OkStatus();
  BEAMLINE_ASSIGN_OR_RETURN(const std::vector<std::string> devices, ListedDevices(options));
  if (!options.device.empty()) {
    return FieldError("devices", fmt::format("'{}'", options.devices),
                      fmt::format("no list where device is given, which is '{}'", options.device));
  }
  if (devices.front() != kCpu && AskedReplicas(options) > devices.size()) {
    return TooManyReplicas(options, devices.size(), ", the GPUs that devices names");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<ReplicaPlacement>> PlaceReplicas(const ModelOptions& options,
                                                            int num_threads) {
  BEAMLINE_RETURN_IF_ERROR(CheckReplicas(options));
  const size_t asked = AskedReplicas(options);
  std::vector<std::string> devices;
  if (options.devices.empty()) {
    BEAMLINE_ASSIGN_OR_RETURN(devices, DevicesWithoutList(options, asked));
  } else {
    BEAMLINE_ASSIGN_OR_RETURN(devices, ListedDevices(options));
    if (asked > 0) devices.resize(asked, std::string(kCpu));
  }
  std::vector<ReplicaPlacement> placements;
  const bool divides = devices.size() > 1 && devices.front() == kCpu;
  const auto count = static_cast<int>(devices.size());
  const int threads = num_threads > 0 ? num_threads : cpu::AvailableCpus();
  const auto cores = divides ? cpu::DivideCores(count) : std::vector<std::vector<int>>();
  for (int i = 0; i < count; ++i) {
    ReplicaPlacement& placement = placements.emplace_back();
    placement.device = std::move(devices[i]);
    placement.cpu.num_threads = num_threads;
    if (!divides) continue;
    placement.cpu.num_threads = std::max(1, threads * (i + 1) / count - threads * i / count);
    placement.cpu.cores = cores[i];
  }
  return placements;
}

}  // namespace beamline
