// Numbers that a replica's thread writes and any thread may read.
#pragma once

#include <atomic>
#include <cstdint>

#include "engine/api/engine.h"
#include "engine/scheduling/service_rate.h"
#include "engine/scheduling/work_share.h"
#include "engine/serving/snapshot_board.h"
#include "engine/serving/step_rate.h"

namespace beamline {

struct ReplicaStats {
  WorkCounter work;  // of its unanswered requests
  StepRate rate;
  ServiceRate service;
  std::atomic<int64_t> running_sequences = 0;
  std::atomic<int64_t> width = 0;  // sequences below which one more begins; 0: of no meaning
  std::atomic<int64_t> used_blocks = 0;
  std::atomic<int64_t> total_blocks = 0;
  std::atomic<uint64_t> steps = 0;
  std::atomic<uint64_t> prompt_tokens = 0;
  std::atomic<uint64_t> cached_prompt_tokens = 0;
  std::atomic<uint64_t> generated_tokens = 0;
  std::atomic<uint64_t> encoded_tokens = 0;
  std::atomic<uint64_t> preemptions = 0;
  std::atomic<uint64_t> cancelled = 0;
  std::atomic<uint64_t> hopeless = 0;
  SnapshotBoard snapshots;
  std::atomic<bool> memory_wanted = false;  // what is not needed while nothing is computed

  ModelStats Read() const {
    ModelStats stats;
    stats.running_sequences = running_sequences;
    stats.used_blocks = used_blocks;
    stats.total_blocks = total_blocks;
    stats.steps = steps;
    stats.prompt_tokens = prompt_tokens;
    stats.cached_prompt_tokens = cached_prompt_tokens;
    stats.generated_tokens = generated_tokens;
    stats.encoded_tokens = encoded_tokens;
    stats.preemptions = preemptions;
    stats.cancelled = cancelled;
    stats.hopeless = hopeless;
    return stats;
  }
};

}  // namespace beamline
