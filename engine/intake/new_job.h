// Creates the part of a job that all kinds of requests share.
#pragma once

#include <memory>
#include <utility>

#include "engine/scheduling/job.h"

namespace beamline {

template <typename JobType, typename Request>
std::unique_ptr<JobType> NewJob(const Request& request, Acceptance acceptance,
                                std::shared_ptr<typename JobType::Sink> sink) {
  auto job = std::make_unique<JobType>();
  job->ticket = std::move(acceptance.ticket);
  job->waiting = std::move(acceptance.waiting);
  job->cancellation = std::move(acceptance.cancellation);
  job->rank = {.priority = request.priority, .arrival = acceptance.arrival};
  job->sink = std::move(sink);
  job->client = request.client;
  job->deadline = request.deadline;
  return job;
}

}  // namespace beamline
