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
                                                         const CpuShare& cpu) {
  if (device.Name() != "cpu") {
    return absl::UnimplementedError(fmt::format(
        "tensor_parallel is {}; accepted on device {}: 1 (several GPUs do not compute a "
        "model together; threads of device cpu do)",
        num_ranks, device.Name()));
  }
  const int all = cpu.num_threads > 0 ? cpu.num_threads : cpu::AvailableCpus();
  // Threads of their own: ranks compute at the same time, and wait for each other.
  const int share = std::max(1, all / num_ranks);
  std::vector<RankGroup::Rank> ranks;
  for (std::unique_ptr<Communicator>& communicator : MakeThreadCommunicators(num_ranks)) {
    ranks.push_back({MakeCpuBackend({.num_threads = share,
                                     .own_threads = share > 1,
                                     .cores = share > 1 ? cpu.cores : std::vector<int>()}),
                     std::move(communicator)});
  }
  return std::make_unique<RankedBackend>(std::make_unique<RankGroup>(std::move(ranks)));
}

}  // namespace beamline
