#include "server/admission.h"

#include "fmt/format.h"

namespace beamline {

absl::StatusOr<Admission::Permit> Admission::Admit() {
  if (draining_) return absl::UnavailableError("the server is shutting down");
  if (running_.fetch_add(1, std::memory_order_relaxed) >= limit_) {
    running_.fetch_sub(1, std::memory_order_relaxed);
    return absl::ResourceExhaustedError(
        fmt::format("{} requests are running, the most that this server takes at once", limit_));
  }
  return Permit(*this);
}

}  // namespace beamline
