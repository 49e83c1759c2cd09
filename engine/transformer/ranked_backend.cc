#include "engine/transformer/ranked_backend.h"

#include <algorithm>

#include "base/status.h"
#include "fmt/format.h"

namespace beamline {

std::string RankedBackend::Description() const {
  if (ranks_->num_stages() == 1) {
    return fmt::format("{} ranks, each on {}", ranks_->size(), result().Description());
  }
  return fmt::format("{} ranks in {} stages, each on {}", ranks_->size(), ranks_->num_stages(),
                     result().Description());
}

std::vector<MemoryUse> RankedBackend::MemoryUsage() const {
  std::vector<MemoryUse> sums = ranks_->backend(0).MemoryUsage();
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
  return result().CopyToHost(device, host, bytes);
}

absl::Status RankedBackend::Synchronize() {
  ranks_->Drain();
  for (int rank = 0; rank < ranks_->size(); ++rank) {
    const absl::Status status = ranks_->backend(rank).Synchronize();
    if (!status.ok()) ranks_->Fail(status);
  }
  return ranks_->status();
}

void RankedBackend::SetLog(Log log) {
  for (int rank = 0; rank < ranks_->size(); ++rank) ranks_->backend(rank).SetLog(log);
}

}  // namespace beamline
