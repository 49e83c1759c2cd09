#include "engine/loading/placement.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "base/field_error.h"
#include "base/status.h"
#include "engine/api/model_settings.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
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

std::string UpTo(size_t most, std::string_view why) {
  return most == 1 ? fmt::format("1{}", why) : fmt::format("1 to {}{}", most, why);
}

absl::Status TooManyReplicas(const ModelOptions& options, size_t most, std::string_view why) {
  return FieldError("replicas", fmt::format("'{}'", options.replicas), UpTo(most, why));
}

// Of one replica, of all stages together.
size_t NumRanks(const ModelOptions& options) {
  return static_cast<size_t>(options.tensor_parallel) *
         static_cast<size_t>(options.pipeline_parallel);
}

// So many GPUs are fewer than the ranks of all `asked` replicas together.
absl::Status TooFewGpus(const ModelOptions& options, size_t asked, size_t gpus,
                        std::string_view which) {
  const auto of_stage = static_cast<size_t>(options.tensor_parallel);
  const size_t ranks = NumRanks(options);
  if (of_stage > gpus) {
    return FieldError("tensor_parallel", fmt::format("{}", of_stage), UpTo(gpus, which));
  }
  if (ranks > gpus) {
    const std::string more =
        of_stage > 1 ? fmt::format("{}, {} for each stage", which, of_stage) : std::string(which);
    return FieldError("pipeline_parallel", fmt::format("{}", options.pipeline_parallel),
                      UpTo(gpus / of_stage, more));
  }
  if (asked <= 1 || ranks == 1) return TooManyReplicas(options, gpus / ranks, which);
  return TooManyReplicas(options, gpus / ranks,
                         fmt::format("{}, {} for each replica", which, ranks));
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

// The devices of all ranks of `asked` replicas of a model that names one device or none.
absl::StatusOr<std::vector<std::string>> DevicesWithoutList(const ModelOptions& options,
                                                            size_t asked) {
  const std::string device = options.device.empty() ? "auto" : options.device;
  const size_t wanted = std::max<size_t>(asked, 1) * NumRanks(options);
  if (wanted == 1 || device == kCpu) return std::vector(wanted, device);
  const bool counts_from_first = device == "auto" || (device == "cuda" && asked <= 1);
  if (!counts_from_first) {
    const std::string why = fmt::format(", as device is '{}'; devices names several GPUs", device);
    return asked > 1 ? TooManyReplicas(options, 1, why) : TooFewGpus(options, asked, 1, why);
  }
  const absl::StatusOr<int> gpus = CountCudaDevices();
  const bool are_there = gpus.ok() && *gpus > 0;
  if (device == "auto" && !are_there) return std::vector(wanted, std::string(kCpu));
  if (are_there && wanted > static_cast<size_t>(*gpus)) {
    return TooFewGpus(options, asked, static_cast<size_t>(*gpus), ", the GPUs that are there");
  }
  std::vector<std::string> devices;
  for (size_t i = 0; i < wanted; ++i) devices.push_back(fmt::format("cuda:{}", i));
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
  if (devices.front() == kCpu) return absl::OkStatus();
  const size_t ranks = NumRanks(options);
  const size_t asked = AskedReplicas(options);
  if (std::max<size_t>(asked, 1) * ranks > devices.size()) {
    return TooFewGpus(options, asked, devices.size(), ", the GPUs that devices names");
  }
  if (asked == 0 && devices.size() % ranks != 0) {
    return FieldError(
        "devices", fmt::format("'{}'", options.devices),
        fmt::format("{} GPUs for each replica, as tensor_parallel is {}{}", ranks,
                    options.tensor_parallel,
                    options.pipeline_parallel > 1
                        ? fmt::format(" and pipeline_parallel {}", options.pipeline_parallel)
                        : ""));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<ReplicaPlacement>> PlaceReplicas(const ModelOptions& options,
                                                            int num_threads) {
  BEAMLINE_RETURN_IF_ERROR(CheckReplicas(options));
  const size_t asked = AskedReplicas(options);
  const size_t ranks = NumRanks(options);
  std::vector<std::string> devices;  // of all ranks
  if (options.devices.empty()) {
    BEAMLINE_ASSIGN_OR_RETURN(devices, DevicesWithoutList(options, asked));
  } else {
    BEAMLINE_ASSIGN_OR_RETURN(devices, ListedDevices(options));
    const bool on_cpu = devices.front() == kCpu;
    if (asked > 0 || on_cpu) {
      devices.resize(std::max<size_t>(asked, 1) * ranks, std::string(kCpu));
    }
  }
  std::vector<ReplicaPlacement> placements;
  const auto count = static_cast<int>(devices.size() / ranks);
  const bool divides = count > 1 && devices.front() == kCpu;
  const int threads = num_threads > 0 ? num_threads : cpu::AvailableCpus();
  const auto cores = divides ? cpu::DivideCores(count) : std::vector<std::vector<int>>();
  for (int i = 0; i < count; ++i) {
    ReplicaPlacement& placement = placements.emplace_back();
    const auto first = devices.begin() + static_cast<std::ptrdiff_t>(ranks) * i;
    placement.devices.assign(first, first + static_cast<std::ptrdiff_t>(ranks));
    placement.cpu.num_threads = num_threads;
    if (!divides) continue;
    placement.cpu.num_threads = std::max(1, threads * (i + 1) / count - threads * i / count);
    placement.cpu.cores = cores[i];
  }
  return placements;
}

absl::StatusOr<ReplicaPlacement> PlaceProcess(const ModelOptions& options, int num_threads) {
  for (const auto& [name, value] :
       {std::pair("weights", &options.weights), std::pair("compute", &options.compute),
        std::pair("cache", &options.cache)}) {
    if (value->empty()) continue;
    return absl::UnimplementedError(
        fmt::format("{} is {}; accepted with rank_address: dtype alone", name, *value));
  }
  if (AskedReplicas(options) > 1) {
    return absl::UnimplementedError(
        fmt::format("replicas is {}; accepted with rank_address: 1", options.replicas));
  }
  if (!options.devices.empty() && options.devices != kCpu) {
    return absl::UnimplementedError(fmt::format(
        "devices is {}; accepted with rank_address: device, one of each process", options.devices));
  }
  ReplicaPlacement placement;
  placement.devices = {options.devices.empty() ? options.device : options.devices};
  if (placement.devices.front().empty()) placement.devices = {"auto"};
  placement.cpu.num_threads = num_threads;
  return placement;
}

ModelOptions OptionsThere(const ModelOptions& options, const ReplicaPlacement& placement) {
  ModelOptions there = options;
  there.device.clear();
  there.devices.clear();
  if (placement.devices.size() == 1 || placement.devices.front() == kCpu) {
    there.device = placement.devices.front();
  } else {
    there.devices = fmt::format("{}", fmt::join(placement.devices, ", "));
    there.replicas = "1";
  }
  return there;
}

}  // namespace beamline
