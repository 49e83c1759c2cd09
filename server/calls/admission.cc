#include "server/calls/admission.h"

#include "fmt/format.h"

namespace beamline {
namespace {

absl::Status TooMany(const SharedLimit& places, int32_t num_places) {
  const bool is_for_few = places.taken <= places.limit - num_places;
  if (is_for_few) {
    return absl::ResourceExhaustedError(fmt::format(
        "{} requests are running, {} of them the client's; accepted: at most {}, of which the last "
        "{} are for clients that have few (max_concurrent_requests)",
        places.taken, places.own, places.limit, SharedLimit::Reserve(places.limit)));
  }
  if (num_places == 1) {
    return absl::ResourceExhaustedError(fmt::format(
        "{} requests are running, the most that this server takes at once", places.limit));
  }
  return absl::ResourceExhaustedError(
      fmt::format("{} requests are running, and {} more would be over the {} that this server "
                  "takes at once",
                  places.taken, num_places, places.limit));
}

}  // namespace

absl::StatusOr<Admission::Permit> Admission::Admit(const std::string& client, int32_t num_places) {
  if (draining_) return absl::UnavailableError("the server is shutting down");
  SharedLimit places;
  {
    std::lock_guard lock(mutex_);
    places = places_.LimitFor(client, limit_);
    if (places.HasRoom(num_places)) {
      places_.Take(client, num_places);
      running_.fetch_add(num_places, std::memory_order_relaxed);
      return Permit(*this, client, num_places);
    }
  }
  return TooMany(places, num_places);
}

}  // namespace beamline
