#include "engine/transformer/ranked_backend.h"

#include <algorithm>
#include <utility>

#include "base/status.h"
#include "fmt/format.h"

namespace beamline {

std::string RankedBackend::Name() const {
  std::string names = first().Name();
  for (int rank = 1; rank < ranks_->size(); ++rank) {
    const std::string name = ranks_->backend(rank).Name();
    if (name != first().Name()) names += "," + name;
  }
  return names;
}

std::optional<size_t> RankedBackend::FreeMemory() const {
  std::optional<size_t> least = first().FreeMemory();
  for (int rank = 1; rank < ranks_->size() && least.has_value(); ++rank) {
    least = std::min(*least, ranks_->backend(rank).FreeMemory().value_or(*least));
  }
  if (least.has_value()) *least *= static_cast<size_t>(ranks_->size());
  return least;
}

std::string RankedBackend::Description() const {
  return fmt::format("{} ranks, each on {}", ranks_->size(), first().Description());
}

std::vector<MemoryUse> RankedBackend::MemoryUsage() const {
  std::vector<MemoryUse> sums = first().MemoryUsage();
  for (int rank = 1; rank < ranks_->size(); ++rank) {
    for (const MemoryUse& use : ranks_->backend(rank).MemoryUsage()) {
      const auto sum = std::find_if(sums.begin(), sums.end(),
                                    [&](const MemoryUse& other) { return other.name == use.name; });
      if (sum == sums.end()) {
        sums.push_back(use);
      } else {
        sum->bytes += use.bytes;
      }
    }
  }
  return sums;
}

absl::Status RankedBackend::CopyToHost(const void* device, void* host, size_t bytes) {
  BEAMLINE_RETURN_IF_ERROR(ranks_->status());
  const absl::Status status = first().CopyToHost(device, host, bytes);
  if (!status.ok()) ranks_->Fail(status);
  // Of an asynchronous device a fault may have ended what was waited for.
  return ranks_->status();
}

absl::Status RankedBackend::Synchronize() {
  for (int rank = 0; rank < ranks_->size(); ++rank) {
    const absl::Status status = ranks_->backend(rank).Synchronize();
    if (!status.ok()) ranks_->Fail(status);
  }
  return ranks_->status();
}

void RankedBackend::SetLog(Log log) {
  // All of them choose alike.
  first().SetLog(std::move(log));
}

}  // namespace beamline
