#include "server/telemetry/log/state_log.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <string>

#include "server/telemetry/log/log_event.h"
#include "spdlog/spdlog.h"

namespace beamline {
namespace {

// Longer than a step of a large model.
constexpr std::chrono::milliseconds kPatience{300};

std::chrono::nanoseconds Seconds(double seconds) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
      std::chrono::duration<double>(seconds));
}

std::string StateLine(const ReplicaSnapshot& snapshot, const ModelStats& stats, bool json) {
  EventLine line("state", json);
  line.AddText("model", snapshot.model);
  line.AddNumber("version", snapshot.version);
  line.AddNumber("replica", snapshot.replica);
  line.AddText("device", snapshot.device);
  line.AddBool("answered", snapshot.answered);
  line.AddNumber("requests", static_cast<int64_t>(snapshot.jobs.size()));
  line.AddNumber("running", std::ranges::count_if(snapshot.jobs, &JobSnapshot::running));
  for (const ReplicaState& replica : stats.replicas) {
    if (replica.version != snapshot.version || replica.replica != snapshot.replica) continue;
    line.AddNumber("steps", static_cast<int64_t>(replica.steps));
    line.AddSeconds("expected_wait_seconds", Seconds(replica.expected_wait_seconds));
  }
  // Values of the model, as its replicas share one queue.
  line.AddNumber("waiting_requests", stats.waiting_requests);
  line.AddNumber("waiting_tokens", stats.waiting_tokens);
  line.AddSeconds("oldest_waiting_seconds", Seconds(stats.oldest_waiting_seconds));
  line.AddNumber("used_blocks", stats.used_blocks);
  line.AddNumber("total_blocks", stats.total_blocks);
  line.AddNumber("preemptions", static_cast<int64_t>(stats.preemptions));
  return std::string(line.End());
}

std::string RequestStateLine(const ReplicaSnapshot& snapshot, const JobSnapshot& job, bool json) {
  EventLine line("state_request", json);
  line.AddText("model", snapshot.model);
  line.AddNumber("replica", snapshot.replica);
  line.AddText("client", job.client);
  line.AddNumber("priority", job.priority);
  line.AddBool("begun", job.begun);
  line.AddBool("running", job.running);
  line.AddSeconds("seconds", Seconds(job.age_seconds));
  line.AddNumber("cost", job.cost);
  if (job.left_seconds.has_value()) line.AddSeconds("left_seconds", Seconds(*job.left_seconds));
  if (job.sequences > 0) {
    line.AddNumber("sequences", job.sequences);
    line.AddNumber("tokens", job.tokens);
    line.AddNumber("blocks", job.blocks);
  }
  return std::string(line.End());
}

}  // namespace

void LogState(const Engine& engine, bool json) {
  for (ReplicaSnapshot& snapshot : engine.Snapshot(kPatience)) {
    const auto stats = engine.Stats(snapshot.model);
    spdlog::info("{}", StateLine(snapshot, stats.ok() ? *stats : ModelStats(), json));
    std::ranges::sort(snapshot.jobs, std::ranges::greater(), &JobSnapshot::age_seconds);
    const size_t told = std::min(snapshot.jobs.size(), kMostStateRequests);
    for (size_t i = 0; i < told; ++i) {
      spdlog::info("{}", RequestStateLine(snapshot, snapshot.jobs[i], json));
    }
  }
}

}  // namespace beamline
