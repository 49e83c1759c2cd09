// The snapshot of a job, for monitoring.
#pragma once

#include <chrono>
#include <cstdint>

#include "engine/api/model.h"
#include "engine/api/request.h"

namespace beamline {

// JobType: a Group or an EncodeJob. Call on the thread that owns the job.
template <typename JobType>
JobSnapshot Snapshot(const JobType& job, Clock::time_point now) {
  const auto seconds = [](Clock::duration time) {
    return std::chrono::duration<double>(time).count();
  };
  JobSnapshot snapshot;
  snapshot.client = job.client;
  snapshot.priority = job.rank.priority;
  snapshot.age_seconds = seconds(now - job.rank.arrival);
  if (job.deadline.has_value()) snapshot.left_seconds = seconds(*job.deadline - now);
  snapshot.begun = job.begun();
  snapshot.running = job.begun();
  snapshot.cost = job.cost;
  if constexpr (requires { job.rows; }) {
    snapshot.running = job.running;
    snapshot.blocks = static_cast<int64_t>(job.memory.size());
    for (const auto& row : job.rows) {
      ++snapshot.sequences;
      snapshot.tokens += static_cast<int64_t>(row.tokens.size());
      snapshot.blocks += static_cast<int64_t>(row.blocks.size());
    }
  }
  return snapshot;
}

}  // namespace beamline
