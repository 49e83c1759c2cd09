#include "server/state_log.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "server/log_event.h"
#include "spdlog/spdlog.h"

namespace beamline {
namespace {

// A step of a large model takes less.
constexpr std::chrono::milliseconds kPatience{300};

std::chrono::nanoseconds Seconds(double seconds) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
      std::chrono::duration<double>(seconds));
}

std::vector<LogField> FieldsOf(const ReplicaSnapshot& snapshot, const ModelStats& stats) {
  const auto running = std::ranges::count_if(snapshot.jobs, &JobSnapshot::running);
  std::vector<LogField> fields = {{"model", snapshot.model},
                                  {"version", int64_t{snapshot.version}},
                                  {"replica", int64_t{snapshot.replica}},
                                  {"device", snapshot.device},
                                  {"answered", snapshot.answered},
                                  {"requests", static_cast<int64_t>(snapshot.jobs.size())},
                                  {"running", int64_t{running}}};
  for (const ReplicaState& replica : stats.replicas) {
    if (replica.version != snapshot.version || replica.replica != snapshot.replica) continue;
    fields.push_back({"steps", static_cast<int64_t>(replica.steps)});
    fields.push_back({"expected_wait_seconds", Seconds(replica.expected_wait_seconds)});
  }
  // Of the model, whose replicas share what waits.
  fields.push_back({"waiting_requests", stats.waiting_requests});
  fields.push_back({"waiting_tokens", stats.waiting_tokens});
  fields.push_back({"oldest_waiting_seconds", Seconds(stats.oldest_waiting_seconds)});
  fields.push_back({"used_blocks", stats.used_blocks});
  fields.push_back({"total_blocks", stats.total_blocks});
  fields.push_back({"preemptions", static_cast<int64_t>(stats.preemptions)});
  return fields;
}

std::vector<LogField> FieldsOf(const ReplicaSnapshot& snapshot, const JobSnapshot& job) {
  std::vector<LogField> fields = {{"model", snapshot.model},
                                  {"replica", int64_t{snapshot.replica}},
                                  {"client", job.client},
                                  {"priority", int64_t{job.priority}},
                                  {"begun", job.begun},
                                  {"running", job.running},
                                  {"seconds", Seconds(job.age_seconds)},
                                  {"cost", job.cost}};
  if (job.left_seconds.has_value()) fields.push_back({"left_seconds", Seconds(*job.left_seconds)});
  if (job.sequences > 0) {
    fields.push_back({"sequences", job.sequences});
    fields.push_back({"tokens", job.tokens});
    fields.push_back({"blocks", job.blocks});
  }
  return fields;
}

}  // namespace

void LogState(const Engine& engine, bool json) {
  for (ReplicaSnapshot& snapshot : engine.Snapshot(kPatience)) {
    const auto stats = engine.Stats(snapshot.model);
    spdlog::info("{}",
                 EventLine("state", FieldsOf(snapshot, stats.ok() ? *stats : ModelStats()), json));
    std::ranges::sort(snapshot.jobs, std::ranges::greater(), &JobSnapshot::age_seconds);
    const size_t told = std::min(snapshot.jobs.size(), kMostStateRequests);
    for (size_t i = 0; i < told; ++i) {
      spdlog::info("{}", EventLine("state_request", FieldsOf(snapshot, snapshot.jobs[i]), json));
    }
  }
}

}  // namespace beamline
