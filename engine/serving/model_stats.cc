#include "engine/serving/model_stats.h"

#include <algorithm>
#include <utility>

namespace beamline {
namespace {

void Add(const MemoryUse& use, std::vector<MemoryUse>& sum) {
  const auto same = std::ranges::find(sum, use.name, &MemoryUse::name);
  if (same == sum.end()) {
    sum.push_back(use);
  } else {
    same->bytes += use.bytes;
  }
}

}  // namespace

void AddCounts(const ModelStats& more, ModelStats& stats) {
  for (uint64_t ModelStats::*counter :
       {&ModelStats::steps, &ModelStats::prompt_tokens, &ModelStats::cached_prompt_tokens,
        &ModelStats::generated_tokens, &ModelStats::encoded_tokens, &ModelStats::preemptions,
        &ModelStats::cancelled, &ModelStats::hopeless, &ModelStats::rerun,
        &ModelStats::speculative_proposed, &ModelStats::speculative_accepted}) {
    stats.*counter += more.*counter;
  }
}

void AddCounters(const Replica& replica, ModelStats& stats) {
  AddCounts(replica.stats().Read(), stats);
}

void AddState(const Replica* replica, ReplicaState state, ModelStats& stats) {
  stats.can_answer = stats.can_answer && state.can_answer;
  if (replica != nullptr) {
    const ModelStats own = replica->stats().Read();
    state.steps = own.steps;
    stats.running_sequences += own.running_sequences;
    stats.used_blocks += own.used_blocks;
    stats.total_blocks += own.total_blocks;
    const Backend& backend = *replica->model().backend;
    state.memory = backend.MemoryUsage();
    state.unused_device_bytes = backend.FreeMemory();
    for (const MemoryUse& use : state.memory) Add(use, stats.memory);
    if (!stats.unused_device_bytes.has_value()) {
      stats.unused_device_bytes = state.unused_device_bytes;
    }
  }
  stats.replicas.push_back(std::move(state));
}

}  // namespace beamline
