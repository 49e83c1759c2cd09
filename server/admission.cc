#include "server/admission.h"

#include "fmt/format.h"

namespace beamline {

absl::StatusOr<Admission::Permit> Admission::Admit(int32_t num_places) {
  if (draining_) return absl::UnavailableError("the server is shutting down");
  int32_t taken = taken_.load(std::memory_order_relaxed);
  do {
    if (taken > limit_ - num_places) {
      return absl::ResourceExhaustedError(
          num_places == 1
              ? fmt::format("{} requests are running, the most that this server takes at once",
                            limit_)
              : fmt::format("{} requests are running, and {} more would be over the {} that this "
                            "server takes at once",
                            taken, num_places, limit_));
    }
  } while (!taken_.compare_exchange_weak(taken, taken + num_places, std::memory_order_relaxed));
  running_.fetch_add(num_places, std::memory_order_relaxed);
  return Permit(*this, num_places);
}

}  // namespace beamline
