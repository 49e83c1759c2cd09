#include "engine/serving/entrance.h"

#include <optional>

#include "fmt/format.h"

namespace beamline {

absl::StatusOr<Acceptance> Entrance::CountIn(Replica& replica, std::unique_ptr<Ticket> ticket,
                                             Clock::time_point arrival) {
  Acceptance acceptance;
  acceptance.arrival = arrival;
  // Who drains sets draining_ before it waits for tickets, so that it misses nobody.
  acceptance.ticket = std::move(ticket);
  if (draining_) return absl::UnavailableError("the server is draining");
  BEAMLINE_RETURN_IF_ERROR(replica.fault().status());
  const int32_t limit = replica.model().options.max_queued_requests;
  std::optional<WaitingCount> waiting =
      WaitingCount::Enter(replica.stats().waiting_requests, limit);
  if (!waiting.has_value()) {
    return absl::ResourceExhaustedError(
        fmt::format("{} requests wait for model '{}' already; accepted: at most {}", limit,
                    replica.model().options.name, limit));
  }
  acceptance.waiting = *std::move(waiting);
  return acceptance;
}

void Entrance::Close() {
  draining_ = true;
  tokenizers_.reset();  // runs what has been posted
}

}  // namespace beamline
