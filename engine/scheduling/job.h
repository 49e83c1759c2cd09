// A request of any kind, from its acceptance to its answer. A replica's loop keeps its jobs in a
// JobList (job_list.h). A Group is a job with sequences and a decoder; an EncodeJob is one with
// inputs.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/cord.h"
#include "engine/api/request.h"
#include "engine/scheduling/cancellation.h"
#include "engine/scheduling/ticket.h"
#include "engine/scheduling/waiting_count.h"
#include "engine/scheduling/waiting_order.h"
#include "engine/scheduling/work_share.h"

namespace beamline {

// What a request of any kind gets when it is accepted.
struct Acceptance {
  Ticket ticket;
  WaitingCount waiting;
  std::shared_ptr<Cancellation> cancellation;
  Clock::time_point arrival;
};

// Answer of a job that is incomplete when its deadline passes.
inline absl::Status OverdueError() {
  return absl::DeadlineExceededError("the deadline passed before the answer was complete");
}

// Answer of a waiting job whose deadline would pass before it was answered.
inline absl::Status HopelessError() {
  return absl::DeadlineExceededError(
      "the deadline was too near to be met when the request's turn came");
}

// Payload of an error that ends a partly computed request: the number of used tokens, in decimal.
// Without the payload, no tokens were used.
inline constexpr char kUsedTokensPayload[] = "beamline.used_tokens";
inline absl::Status WithUsedTokens(absl::Status status, int64_t tokens) {
  if (tokens > 0) status.SetPayload(kUsedTokensPayload, absl::Cord(std::to_string(tokens)));
  return status;
}

template <typename SinkType, typename ResultType>
struct Job {
  using Sink = SinkType;
  using Result = ResultType;

  Ticket ticket;         // declared first, so it is released last
  WaitingCount waiting;  // until the answer
  WorkShare work;        // of its replica
  std::shared_ptr<Sink> sink;
  std::shared_ptr<Cancellation> cancellation;  // null: it cannot be cancelled
  std::optional<Clock::time_point> deadline;
  WaitingRank rank;
  std::string client;                           // for fair queueing between clients
  int64_t cost = 1;                             // tokens that it may have to compute
  int64_t input_tokens = 0;                     // the part of cost that is its input
  int64_t steps = 1;                            // estimated maximum number of steps
  bool may_be_cut = false;                      // a partial answer is useful, too
  std::chrono::nanoseconds expected_queue{-1};  // estimate at arrival; < 0: unknown
  std::chrono::nanoseconds queue_time{-1};      // arrival to the first step; < 0: not yet
  size_t place = 0;                             // in its JobList, whose it is
  int32_t turn = -1;                            // in its JobList's WaitingList, whose it is
  bool done = false;                            // answered

  // The job is in a step, for the first time or again.
  void Begin(Clock::time_point now) {
    waiting.Begin(rank.fair_tag);
    if (!begun()) queue_time = now - rank.arrival;
  }
  bool begun() const { return queue_time.count() >= 0; }
  // Steps until the answer is of use to the client.
  int64_t steps_to_use() const { return may_be_cut ? 1 : steps; }

  // Sends the one answer. Later calls are ignored: for example, a request may be cancelled and also
  // hit a device fault.
  void Answer(absl::StatusOr<Result> result) {
    if (std::exchange(done, true)) return;
    waiting.Leave();
    sink->OnFinish(std::move(result));
  }
};

}  // namespace beamline
