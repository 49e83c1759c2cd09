// Groups with fake decoders, and the steps of a scheduler that computes them.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/scheduling/scheduler.h"
#include "tests/engine/scheduling/fake_decoder.h"

namespace beamline {

// Of one row, for `steps` steps.
inline std::unique_ptr<Group> MakeGroup(int32_t prompt, int32_t steps, int32_t priority,
                                        Clock::time_point arrival) {
  auto group = std::make_unique<Group>();
  group->rows.resize(1);
  group->rows[0].tokens.assign(prompt, 1);
  group->cache_salt = std::to_string(prompt);
  group->decoder = std::make_unique<FakeDecoder>(1, steps, FakeKind::kIndependent, 1);
  group->rank.priority = priority;
  group->rank.arrival = arrival;
  return group;
}

// Computes a step; returns how many groups finished.
inline int RunStep(Scheduler& scheduler, Clock::time_point now, int32_t lane = 0) {
  int finished = 0;
  if (!scheduler.PrepareStep(now, lane)) return 0;
  for (const LogitsRange& range : scheduler.step().logits_ranges()) {
    const std::vector<RowResult> results(range.count);
    const auto next = range.group->decoder->Advance(results);
    if (range.group->decoder->finished()) {
      range.group->done = true;
      ++finished;
    } else {
      GroupCache::Workspace workspace;
      scheduler.Fork(*range.group, next, workspace);
      scheduler.Free(workspace);
    }
  }
  scheduler.RemoveDone();
  return finished;
}

// Of a client, tokens that are computed.
inline int32_t Computed(const Scheduler& scheduler, const std::string& client) {
  int32_t computed = 0;
  for (const auto& group : scheduler.groups()) {
    if (group->client == client) computed += group->rows[0].num_computed;
  }
  return computed;
}

}  // namespace beamline
