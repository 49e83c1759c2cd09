#include "engine/serving/entrance.h"

#include <optional>

#include "fmt/format.h"

namespace beamline {

absl::StatusOr<Acceptance> Entrance::CountIn(ReplicaPool& pool, Ticket ticket, const Asker& asker,
                                             const Demand& demand) {
  Acceptance acceptance;
  acceptance.arrival = asker.arrival;
  // Who drains sets draining_ before it waits for tickets, so that it misses nobody.
  acceptance.ticket = std::move(ticket);
  if (draining_) return absl::UnavailableError("the server is draining");
  BEAMLINE_RETURN_IF_ERROR(pool.status());
  const int32_t limit = pool.facts().options.max_queued_requests;
  std::optional<WaitingCount> waiting = WaitingCount::Enter(pool.waiting(), limit, asker.client);
  if (!waiting.has_value()) {
    return absl::ResourceExhaustedError(fmt::format(
        "{} requests wait for model '{}' already; accepted: at most {}, of which the last {} are "
        "for clients that have few",
        pool.waiting().count(), pool.facts().options.name, limit, SharedLimit::Reserve(limit)));
  }
  acceptance.waiting = *std::move(waiting);
  // Before its tokens are known it can be seen already that it would wait too long.
  if (asker.deadline.has_value()) {
    BEAMLINE_RETURN_IF_ERROR(pool.CheckDeadline(asker, demand).status());
  }
  return acceptance;
}

void Entrance::Close() {
  draining_ = true;
  closed_ = true;
  workers_.reset();  // runs what has been posted, which ends soon
}

}  // namespace beamline
