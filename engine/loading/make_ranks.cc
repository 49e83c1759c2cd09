#include "engine/loading/make_ranks.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/cpu_count.h"
#include "kernels/cpu/thread_communicator.h"

namespace beamline {

absl::StatusOr<std::unique_ptr<RankedBackend>> MakeRanks(int num_ranks, const Backend& device,
                                                         const CpuShare& cpu, int num_stages) {
  if (num_stages > 1 && device.Name() != "cpu") {
    return absl::UnimplementedError(fmt::format(
        "pipeline_parallel is {}; accepted on device {}: 1 (several GPUs do not compute a model "
        "one behind the other; threads of device cpu do)",
        num_stages, device.Name()));
  }
  if (device.Name() != "cpu") {
    return absl::UnimplementedError(fmt::format(
        "tensor_parallel is {}; accepted on device {}: 1 (several GPUs do not compute a "
        "model together; threads of device cpu do)",
        num_ranks, device.Name()));
  }
  const int all = cpu.num_threads > 0 ? cpu.num_threads : cpu::AvailableCpus();
  // Threads of their own: ranks compute at the same time, and wait for each other.
  const int share = std::max(1, all / (num_ranks * num_stages));
  std::vector<std::unique_ptr<Backend>> devices(static_cast<size_t>(num_ranks) * num_stages);
  for (std::unique_ptr<Backend>& rank : devices) {
    rank = MakeCpuBackend({.num_threads = share,
                           .own_threads = share > 1,
                           .cores = share > 1 ? cpu.cores : std::vector<int>()});
  }
  return std::make_unique<RankedBackend>(
      std::make_unique<RankGroup>(ConnectThreads(std::move(devices), num_stages)));
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
