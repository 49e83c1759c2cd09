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

void AddCounters(const Replica& replica, ModelStats& stats) {
  const ModelStats own = replica.stats().Read();
  for (uint64_t ModelStats::*counter :
       {&ModelStats::steps, &ModelStats::prompt_tokens, &ModelStats::cached_prompt_tokens,
        &ModelStats::generated_tokens, &ModelStats::encoded_tokens, &ModelStats::preemptions,
        &ModelStats::cancelled}) {
    stats.*counter += own.*counter;
  }
  if (const Speculation* speculation = replica.model().speculation.get()) {
    stats.speculative_proposed += speculation->proposed();
    stats.speculative_accepted += speculation->accepted();
  }
}

void AddState(const Replica& replica, int32_t number, ModelStats& stats) {
  const ModelStats own = replica.stats().Read();
  stats.waiting_requests += own.waiting_requests;
  stats.running_sequences += own.running_sequences;
  stats.used_blocks += own.used_blocks;
  stats.total_blocks += own.total_blocks;
  const LoadedModel& model = replica.model();
  ReplicaState state;
  state.version = model.options.version;
  state.replica = number;
  state.device = model.info.device;
  state.can_answer = replica.fault().status().ok();
  state.memory = model.backend->MemoryUsage();
  state.unused_device_bytes = model.backend->FreeMemory();
  stats.can_answer = stats.can_answer && state.can_answer;
  for (const MemoryUse& use : state.memory) Add(use, stats.memory);
  if (!stats.unused_device_bytes.has_value()) {
    stats.unused_device_bytes = state.unused_device_bytes;
  }
  stats.replicas.push_back(std::move(state));
}

}  // namespace beamline
