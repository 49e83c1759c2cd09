#include "engine/loading/make_ranks.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/status.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/cpu_count.h"
#include "kernels/cpu/thread_communicator.h"
#include "kernels/cuda_loader.h"

namespace beamline {
namespace {

std::unique_ptr<RankedBackend> Together(std::vector<std::unique_ptr<Backend>> backends,
                                        std::vector<std::unique_ptr<Communicator>> communicators) {
  std::vector<RankGroup::Rank> ranks;
  for (size_t i = 0; i < backends.size(); ++i) {
    ranks.push_back({std::move(backends[i]), std::move(communicators[i])});
  }
  return std::make_unique<RankedBackend>(std::make_unique<RankGroup>(std::move(ranks)));
}

std::unique_ptr<RankedBackend> MakeCpuRanks(int num_ranks, const CpuShare& cpu) {
  const int all = cpu.num_threads > 0 ? cpu.num_threads : cpu::AvailableCpus();
  // Threads of their own: ranks compute at the same time, and wait for each other.
  const int share = std::max(1, all / num_ranks);
  std::vector<std::unique_ptr<Backend>> backends;
  for (int rank = 0; rank < num_ranks; ++rank) {
    backends.push_back(MakeCpuBackend({.num_threads = share,
                                       .own_threads = share > 1,
                                       .cores = share > 1 ? cpu.cores : std::vector<int>()}));
  }
  return Together(std::move(backends), MakeThreadCommunicators(num_ranks));
}

}  // namespace

absl::StatusOr<std::unique_ptr<RankedBackend>> MakeRanks(std::span<const std::string> devices,
                                                         const ModelNeeds& needs,
                                                         const CpuShare& cpu,
                                                         const GpuMemoryLimit& memory) {
  if (devices.front() == "cpu") return MakeCpuRanks(static_cast<int>(devices.size()), cpu);
  std::vector<std::unique_ptr<Backend>> backends;
  std::vector<Backend*> gpus;
  for (const std::string& device : devices) {
    BEAMLINE_ASSIGN_OR_RETURN(ChosenBackend chosen, MakeBackend(device, needs, cpu, memory));
    gpus.push_back(chosen.backend.get());
    backends.push_back(std::move(chosen.backend));
  }
  auto communicators = MakeCudaCommunicators(gpus);
  if (communicators.ok()) return Together(std::move(backends), *std::move(communicators));
  return absl::Status(
      communicators.status().code(),
      fmt::format("tensor_parallel is {} on {}, which do not compute together here: {}",
                  devices.size(), fmt::join(devices, ", "),
                  std::string(communicators.status().message())));
}

}  // namespace beamline
