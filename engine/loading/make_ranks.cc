#include "engine/loading/make_ranks.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/functional/function_ref.h"
#include "base/check.h"
#include "base/field_error.h"
#include "base/status.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/cpu_count.h"
#include "kernels/cpu/thread_communicator.h"
#include "kernels/cuda_loader.h"

namespace beamline {
namespace {

// The ends, in the order of the ranks, of what connects these devices.
using Connect = absl::FunctionRef<absl::StatusOr<std::vector<std::unique_ptr<Communicator>>>(
    std::span<Backend* const> devices, RankTraffic traffic)>;

// Connects the ranks that share a stage's layers, and those of the same share in every stage.
absl::Status ConnectAll(std::vector<RankGroup::Rank>& ranks, int num_stages, Connect connect) {
  const size_t of_stage = ranks.size() / static_cast<size_t>(num_stages);
  // Of the ranks first, first + step, ... in their order.
  const auto together = [&](size_t first, size_t step, size_t count, RankTraffic traffic,
                            std::unique_ptr<Communicator> RankGroup::Rank::*end) -> absl::Status {
    if (count == 1) return absl::OkStatus();
    std::vector<Backend*> devices;
    for (size_t i = 0; i < count; ++i) devices.push_back(ranks[first + i * step].backend.get());
    BEAMLINE_ASSIGN_OR_RETURN(auto ends, connect(devices, traffic));
    for (size_t i = 0; i < count; ++i) ranks[first + i * step].*end = std::move(ends[i]);
    return absl::OkStatus();
  };
  for (size_t first = 0; first < ranks.size(); first += of_stage) {
    BEAMLINE_RETURN_IF_ERROR(
        together(first, 1, of_stage, RankTraffic::kCollectives, &RankGroup::Rank::communicator));
  }
  for (size_t share = 0; share < of_stage; ++share) {
    BEAMLINE_RETURN_IF_ERROR(together(share, of_stage, static_cast<size_t>(num_stages),
                                      RankTraffic::kMessages, &RankGroup::Rank::stages));
  }
  return absl::OkStatus();
}

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

absl::Status CheckOneGpu(const ModelOptions& options, bool on_gpu) {
  if (!options.deterministic || !on_gpu || options.num_ranks() == 1) return absl::OkStatus();
  return FieldError("deterministic", "true",
                    fmt::format("false with tensor_parallel {} and pipeline_parallel {} on GPUs",
                                options.tensor_parallel, options.pipeline_parallel));
}

absl::StatusOr<std::unique_ptr<RankedBackend>> MakeRanks(std::span<const std::string> devices,
                                                         const ModelNeeds& needs,
                                                         const CpuShare& cpu,
                                                         const GpuMemoryLimit& memory,
                                                         int num_stages) {
  if (devices.front() == "cpu") {
    return Together(ConnectThreads(MakeCpuDevices(devices.size(), cpu), num_stages));
  }
  std::vector<RankGroup::Rank> ranks;
  for (const std::string& device : devices) {
    BEAMLINE_ASSIGN_OR_RETURN(ChosenBackend chosen, MakeBackend(device, needs, cpu, memory));
    ranks.emplace_back().backend = std::move(chosen.backend);
  }
  const absl::Status connected = ConnectAll(ranks, num_stages, MakeCudaCommunicators);
  if (!connected.ok()) {
    const size_t of_stage = devices.size() / static_cast<size_t>(num_stages);
    std::string asked =
        of_stage > 1 ? fmt::format("tensor_parallel is {}", of_stage) : std::string();
    if (num_stages > 1) {
      asked += fmt::format("{}pipeline_parallel is {}", of_stage > 1 ? " and " : "", num_stages);
    }
    return absl::Status(connected.code(),
                        fmt::format("{} on {}, which do not compute together here: {}", asked,
                                    fmt::join(devices, ", "), std::string(connected.message())));
  }
  return Together(std::move(ranks));
}

std::unique_ptr<Backend> MakeCpuRank(const CpuShare& cpu) {
  return std::move(MakeCpuDevices(1, cpu).front());
}

std::vector<RankGroup::Rank> ConnectThreads(std::vector<std::unique_ptr<Backend>> devices,
                                            int num_stages) {
  std::vector<RankGroup::Rank> ranks(devices.size());
  for (size_t i = 0; i < ranks.size(); ++i) ranks[i].backend = std::move(devices[i]);
  BEAMLINE_CHECK(
      ConnectAll(ranks, num_stages, [](std::span<Backend* const> connected, RankTraffic) {
        return absl::StatusOr<std::vector<std::unique_ptr<Communicator>>>(
            MakeThreadCommunicators(static_cast<int>(connected.size())));
      }).ok());
  return ranks;
}

}  // namespace beamline
