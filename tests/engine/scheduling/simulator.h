// Runs the real scheduler, planner and cache under a fake clock and a fake model, and checks after
// every step that nothing is lost, leaked or mixed up.
//
// The fake model's "keys and values" of a position are a hash of the whole history up to it. Each
// is computed from its predecessor as read back through the block table, so one wrong block, slot,
// copy or order shows as a wrong hash.
#pragma once

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <unordered_set>
#include <vector>

#include "engine/scheduling/scheduler.h"

namespace beamline {

struct SimulationOptions {
  uint64_t seed = 0;
  int32_t num_requests = 20;
  int32_t max_steps = 20000;
  int32_t num_lanes = 1;
  bool vary_width = false;   // of what runs, from step to step
  bool vary_pieces = false;  // of prompts, likewise: 1 to 40 tokens
};

struct SimulationResult {
  std::string error;  // empty: every invariant held
  int32_t steps = 0;
  int32_t preemptions = 0;
  int32_t finished = 0;
  int32_t cancelled = 0;
  int32_t expired_waiting = 0;  // past their deadline before their first step
  int32_t expired_running = 0;  // past it after that, preempted ones included
  int64_t cached_tokens = 0;
  int64_t assumed_tokens = 0;      // computed before anybody had read them
  int64_t reordered_searches = 0;  // computed before anybody knew their rows' parents
  int64_t overlapped_steps = 0;    // of several lanes: launched while another was under way
  int64_t preempted_awaiting = 0;  // groups that were given up while their logits were computed
};

// A pure function of the options.
SimulationResult Simulate(const SimulationOptions& options);

}  // namespace beamline
