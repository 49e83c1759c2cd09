#include "engine/loading/make_ranks.h"

#include <algorithm>
#include <utility>

#include "base/status.h"
#include "engine/loading/placement.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/cpu_count.h"
#include "kernels/cpu/process_communicator.h"
#include "kernels/cpu/thread_communicator.h"
#include "kernels/cuda_loader.h"

namespace beamline {
namespace {

std::unique_ptr<RankedBackend> Together(std::vector<RankGroup::Rank> ranks) {
  return std::make_unique<RankedBackend>(std::make_unique<RankGroup>(std::move(ranks)));
}

std::vector<std::unique_ptr<Backend>> MakeCpuDevices(size_t num_ranks, const CpuShare& cpu) {
  const int all = cpu.num_threads > 0 ? cpu.num_threads : cpu::AvailableCpus();
  // Threads of their own: ranks compute at the same time, and wait for each other.
  const int share = std::max(1, all / static_cast<int>(num_ranks));
  std::vector<std::unique_ptr<Backend>> devices(num_ranks);
  for (std::unique_ptr<Backend>& device : devices) {
    device = MakeCpuBackend({.num_threads = share,
                             .own_threads = share > 1,
                             .cores = share > 1 ? cpu.cores : std::vector<int>()});
  }
  return devices;
}

}  // namespace

absl::StatusOr<std::unique_ptr<RankedBackend>> MakeRanks(std::span<const std::string> devices,
                                                         const ModelNeeds& needs,
                                                         const CpuShare& cpu,
                                                         const GpuMemoryLimit& memory,
                                                         int num_stages) {
  if (devices.front() == "cpu") {
    return Together(ConnectThreads(MakeCpuDevices(devices.size(), cpu), num_stages));
  }
  if (num_stages > 1) {
    return absl::UnimplementedError(fmt::format(
        "pipeline_parallel is {}; accepted on device {}: 1 (several GPUs do not compute a model "
        "one behind the other; threads of device cpu do)",
        num_stages, devices.front()));
  }
  std::vector<RankGroup::Rank> ranks;
  std::vector<Backend*> gpus;
  for (const std::string& device : devices) {
    BEAMLINE_ASSIGN_OR_RETURN(ChosenBackend chosen, MakeBackend(device, needs, cpu, memory));
    gpus.push_back(chosen.backend.get());
    ranks.emplace_back().backend = std::move(chosen.backend);
  }
  auto communicators = MakeCudaCommunicators(gpus);
  if (!communicators.ok()) {
    return absl::Status(
        communicators.status().code(),
        fmt::format("tensor_parallel is {} on {}, which do not compute together here: {}",
                    devices.size(), fmt::join(devices, ", "),
                    std::string(communicators.status().message())));
  }
  for (size_t i = 0; i < ranks.size(); ++i) {
    ranks[i].communicator = std::move((*communicators)[i]);
  }
  return Together(std::move(ranks));
}

std::unique_ptr<RankedBackend> MakeProcessRank(std::shared_ptr<RankLinks> links,
                                               const CpuShare& cpu) {
  RankGroup::Rank rank;
  rank.backend = std::move(MakeCpuDevices(1, cpu).front());
  rank.communicator = MakeProcessCommunicator(links);
  return std::make_unique<RankedBackend>(
      std::make_unique<RankGroup>(std::move(rank), std::move(links)));
}

RankDoor DoorOf(const ProcessOptions& options, int num_ranks) {
  return {.host = options.host,
          .port = options.port,
          .size = num_ranks,
          .secret = options.secret,
          .join_limit = options.time_limit};
}

absl::Status CheckProcesses(const ModelOptions& options) {
  if (options.pipeline_parallel > 1) {
    return absl::UnimplementedError(fmt::format(
        "pipeline_parallel is {}; accepted with rank_address: 1", options.pipeline_parallel));
  }
  BEAMLINE_ASSIGN_OR_RETURN(const auto placements, PlaceReplicas(options, /*num_threads=*/1));
  if (placements.size() > 1) {
    return absl::UnimplementedError(
        fmt::format("replicas is {}; accepted with rank_address: 1", placements.size()));
  }
  const std::string& device = placements.front().devices.front();
  if (device == "cpu") return absl::OkStatus();
  return absl::UnimplementedError(fmt::format(
      "device is {}; accepted with rank_address: cpu (GPUs are ranks of one process)", device));
}

std::vector<RankGroup::Rank> ConnectThreads(std::vector<std::unique_ptr<Backend>> devices,
                                            int num_stages) {
  const auto num_ranks = static_cast<int>(devices.size()) / num_stages;
  std::vector<RankGroup::Rank> ranks(devices.size());
  for (size_t i = 0; i < ranks.size(); ++i) ranks[i].backend = std::move(devices[i]);
  for (int stage = 0; num_ranks > 1 && stage < num_stages; ++stage) {
    auto shares = MakeThreadCommunicators(num_ranks);
    for (int i = 0; i < num_ranks; ++i) {
      ranks[stage * num_ranks + i].communicator = std::move(shares[i]);
    }
  }
  for (int i = 0; num_stages > 1 && i < num_ranks; ++i) {
    auto stages = MakeThreadCommunicators(num_stages);
    for (int stage = 0; stage < num_stages; ++stage) {
      ranks[stage * num_ranks + i].stages = std::move(stages[stage]);
    }
  }
  return ranks;
}

}  // namespace beamline
