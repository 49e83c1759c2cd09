#include "engine/transformer/ranked_backend.h"

#include <algorithm>
#include <utility>

#include "absl/strings/cord.h"
#include "base/status.h"
#include "fmt/format.h"

namespace beamline {

absl::Status WithDeviceFault(const absl::Status& fault, const absl::Status& of_device) {
  if (of_device.ok() || of_device.message() == fault.message()) return fault;
  return absl::Status(fault.code(),
                      fmt::format("{}; and then its device: {}", std::string(fault.message()),
                                  std::string(of_device.message())));
}

std::string RankedBackend::Name() const {
  std::string names = ranks_->backend(0).Name();
  for (int rank = 1; rank < ranks_->size(); ++rank) {
    const std::string name = ranks_->backend(rank).Name();
    if (name != ranks_->backend(0).Name()) names += "," + name;
  }
  return names;
}

std::optional<size_t> RankedBackend::FreeMemory() const {
  std::optional<size_t> least = ranks_->backend(0).FreeMemory();
  for (int rank = 1; rank < ranks_->size() && least.has_value(); ++rank) {
    least = std::min(*least, ranks_->backend(rank).FreeMemory().value_or(*least));
  }
  if (least.has_value()) *least = std::min(*least, least_free_elsewhere_.value_or(*least));
  if (least.has_value()) *least *= static_cast<size_t>(ranks_->num_ranks());
  return least;
}

std::string RankedBackend::Description() const {
  const std::string stages =
      ranks_->num_stages() > 1 ? fmt::format(" in {} stages", ranks_->num_stages()) : "";
  return fmt::format("{} ranks{}{}, each on {}", ranks_->num_ranks(), stages,
                     ranks_->followers() != nullptr ? " as processes" : "", result().Description());
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
  const absl::Status status = result().CopyToHost(device, host, bytes);
  if (!status.ok()) ranks_->Fail(status);
  // Of an asynchronous device a fault may have ended what was waited for.
  return ranks_->Look();
}

absl::Status RankedBackend::Synchronize() {
  ranks_->Drain();
  absl::Status own;
  for (int rank = 0; rank < ranks_->size(); ++rank) {
    const absl::Status status = ranks_->backend(rank).Synchronize();
    if (status.ok()) continue;
    own.Update(status);
    ranks_->Fail(status);
  }
  absl::Status fault = ranks_->status();
  if (!own.ok()) return WithDeviceFault(fault, own);
  if (!fault.ok() && ranks_->followers() != nullptr) {
    fault.SetPayload(kDeviceWholePayload, absl::Cord());
  }
  return fault;
}

void RankedBackend::SetLog(Log log) {
  // All of them choose alike.
  ranks_->backend(0).SetLog(std::move(log));
}

}  // namespace beamline
