// A request from its acceptance to its answer, whatever it asks for. A replica's loop holds its
// jobs in a JobList (job_list.h); a Group is a job with sequences and a decoder, an EncodeJob one
// with inputs.
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

// What a request gets when it is accepted, whatever it asks for.
struct Acceptance {
  Ticket ticket;
  WaitingCount waiting;
  std::shared_ptr<Cancellation> cancellation;
  Clock::time_point arrival;
};

// The answer to a job that is not complete when its deadline passes.
inline absl::Status OverdueError() {
  return absl::DeadlineExceededError("the deadline passed before the answer was complete");
}

// The answer to a job that waits and whose deadline would pass before it was answered.
inline absl::Status HopelessError() {
  return absl::DeadlineExceededError(
      "the deadline was too near to be met when the request's turn came");
}

// An error that ends a request of which something was computed has the number of tokens that were
// used in this payload, in decimal; without it none were.
inline constexpr char kUsedTokensPayload[] = "beamline.used_tokens";
inline absl::Status WithUsedTokens(absl::Status status, int64_t tokens) {
  if (tokens > 0) status.SetPayload(kUsedTokensPayload, absl::Cord(std::to_string(tokens)));
  return status;
}

template <typename SinkType, typename ResultType>
struct Job {
  using Sink = SinkType;
  using Result = ResultType;

  Ticket ticket;         // declared first, given back last
  WaitingCount waiting;  // until its answer
  WorkShare work;        // of its replica's
  std::shared_ptr<Sink> sink;
  std::shared_ptr<Cancellation> cancellation;  // null: it cannot be cancelled
  std::optional<Clock::time_point> deadline;
  WaitingRank rank;
  std::string client;                           // who shares fairly with whom
  int64_t cost = 1;                             // tokens that it may come to compute
  int64_t input_tokens = 0;                     // of them, those that it brings
  int64_t steps = 1;                            // that it may take, about
  bool may_be_cut = false;                      // a beginning of the answer is of use too
  std::chrono::nanoseconds expected_queue{-1};  // told when it came; < 0: not known
  std::chrono::nanoseconds queue_time{-1};      // arrival to the first step; < 0: not yet
  size_t place = 0;                             // in its JobList, whose it is
  int32_t turn = -1;                            // in its JobList's WaitingTree, whose it is
  bool done = false;                            // answered

  // It is in a step, the first time or once more.
  void Begin(Clock::time_point now) {
    waiting.Begin(rank.fair_tag);
    if (!begun()) queue_time = now - rank.arrival;
  }
  bool begun() const { return queue_time.count() >= 0; }
  // Until what it asks for is of use.
  int64_t steps_to_use() const { return may_be_cut ? 1 : steps; }

  // The one answer. What comes after the first is dropped: a request that its client has cancelled
  // may be met by a fault as well.
  void Answer(absl::StatusOr<Result> result) {
    if (std::exchange(done, true)) return;
    waiting.Leave();
    sink->OnFinish(std::move(result));
  }
};

}  // namespace beamline
