// A request handed to a replica by a test, without the engine around it.
#pragma once

#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <utility>

#include "engine/intake/tokenize_job.h"
#include "engine/serving/replica.h"

namespace beamline {

// Returns the request's cancellation. REQUIRES: `replica` accepts it.
template <typename Intake>
std::shared_ptr<Cancellation> HandIn(typename Intake::Request request,
                                     std::shared_ptr<typename Intake::Sink> sink,
                                     TicketCounter& tickets, WaitingCounter& waiting,
                                     Replica& replica) {
  auto intake = Intake::Check(std::move(request), replica.model());
  EXPECT_TRUE(intake.ok()) << intake.status();
  auto cancellation = std::make_shared<Cancellation>();
  Acceptance acceptance;
  acceptance.ticket = Ticket(tickets);
  acceptance.waiting = *WaitingCount::Enter(waiting, std::numeric_limits<int64_t>::max());
  acceptance.cancellation = cancellation;
  acceptance.arrival = Clock::now();
  auto job = intake->Start(std::move(acceptance), std::move(sink));
  const absl::Status status = TokenizeJob(*intake, *job);
  EXPECT_TRUE(status.ok()) << status;
  job->work = WorkShare(replica.stats().work, job->cost);  // as a pool counts it
  replica.Submit(std::move(job));
  return cancellation;
}

}  // namespace beamline
