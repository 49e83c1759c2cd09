// What the next step computes. A pure function of the groups' state, the free blocks and the
// limits: tests run it by simulation.
//
// The rules, in order:
// 1. Running groups come first, the oldest admission first: the next token of each row that
//    decodes. A group that advances as one (a beam search) gets all of its rows or none.
// 2. When blocks run out, one running group is given up (put_back.h). The plan then says only that;
//    its blocks go back and the step is planned anew. (What a group frees depends on who shares
//    with it, which the planner does not see.)
//    Never the only running one: admission has checked that any group fits alone.
// 3. Waiting groups are admitted in the order in which they are given (Scheduler gives them by
//    engine/scheduling/waiting_order.h) while rows, tokens and blocks last and the watermark stays
//    free, and not at all in a step that preempted.
//    The first that does not fit ends admission, so that a big request is not passed over for ever:
//    but for groups of clients of which nothing runs. For the first of these that does not fit a
//    group of a client that has more is given up (put_back.h), and the step is planned anew with it
//    alone.
//    The blocks that prompts under way still need are not given away.
// 4. What is left of the step's tokens goes to prompts, in pieces: in equal shares to the clients
//    that have some (prompt_shares.h), and within a client in the order of admission. Given tokens
//    whose logits are wanted (Score, a prompt's log-probabilities) are prompts too, but are not
//    cut. A client without a prompt under way is admitted beside others, up to kMostSharing of
//    them.
//
// Where the running groups are divided into lanes (StepLimits::num_lanes), a step computes those of
// one lane, while steps of the others are under way:
// - A group stays in its lane while it runs. Each that waits is meant, in the order of admission,
//   for the lane with the fewest rows by then, for the step's own where that is one of them. The
//   step admits those that are meant for its lane; for the others it leaves rows and blocks, which
//   the next steps of their lanes take.
// - Any running group may be given up, those in other lanes too: what a step under way still does
//   in their blocks comes before anything that a later step does there. A group is not admitted
//   before its results have been read.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string_view>
#include <vector>

#include "engine/transformer/step_limits.h"

namespace beamline {

// One growing sequence as the planner sees it.
struct RowState {
  int32_t num_tokens = 0;          // known ids: prompt and generated
  int32_t num_computed = 0;        // of them, in the cache
  int32_t num_blocks = 0;          // in its table, or in the cached prefix that admission takes
  int32_t prefix_free_blocks = 0;  // of a waiting row's cached prefix, those off the free list
  int32_t num_logits = 1;          // last tokens that are computed in one step
  bool shared_tail = false;        // the next position's block has other holders: writing copies it
};

struct GroupState {
  bool running = false;
  int32_t priority = 0;       // of one that waits, with what it has gained by waiting
  int64_t turn_priority = 0;  // by which it waits: WaitingOrder's
  uint64_t admission = 0;     // order of admission of the running
  int32_t max_rows = 1;       // most rows it may ever have
  int32_t memory_tokens = 0;  // encoder tokens still to compute, with their blocks not yet held
  int32_t lane = 0;           // of the running
  // False: it reads given tokens next, for their logits, and may wait as a prompt does.
  bool generates = true;
  std::string_view client;
  uint64_t last_prompt_step = 0;   // the latest step that had tokens of its prompt
  std::span<const RowState> rows;  // at least one
};

struct RowChunk {
  int32_t group = 0;  // index into the groups given
  int32_t row = 0;
  int32_t num_tokens = 0;  // to compute, from num_computed on
};

struct StepPlan {
  int32_t preempt = -1;          // the group to give up before planning anew; -1: none
  int32_t instead = -1;          // the waiting group that gets its room; -1: those that run do
  std::vector<int32_t> admit;    // groups, in order
  std::vector<int32_t> encode;   // groups whose encoder input runs in this step
  std::vector<int32_t> prompts;  // groups with tokens of their prompts in it
  std::vector<RowChunk> chunks;  // by group, rows ascending
  int32_t num_tokens = 0;        // of chunks and encoder inputs

  void Clear();
};

// Most prompt tokens of a step, at least 1, encoder inputs included. What cannot be cut (an encoder
// input, tokens whose logits are wanted) may exceed it, one group at a time.
struct PromptTokens {
  int32_t beside_decoding = std::numeric_limits<int32_t>::max();  // while any group decodes
  int32_t alone = std::numeric_limits<int32_t>::max();
};

struct StepOptions {
  int32_t lane = 0;
  // Running rows below which groups start. One of a client of which nothing runs starts above it,
  // where fewer clients than this run.
  int32_t width = std::numeric_limits<int32_t>::max();
  PromptTokens prompt_tokens;
  // Of the groups given, those at the end that are given out of turn, as nothing of their clients'
  // runs: what they need is left to them by groups of other clients that wait with no higher
  // priority.
  int32_t num_newcomers = 0;
  // The one group that waits is admitted to the lane, whichever has the fewest rows: another group
  // was given up for it.
  bool keeps_lane = false;
};

// Clients whose prompts share a step beyond those that fit into it whole.
inline constexpr int32_t kMostSharing = 8;

// Fills `plan` (its memory is reused from step to step). Those of `groups` that do not run may be
// admitted.
void PlanStep(std::span<const GroupState> groups, int32_t free_blocks, const StepLimits& limits,
              StepPlan& plan, const StepOptions& options = {});

// Blocks that a group of this shape can come to hold, with nothing shared: what admission compares
// to the pool.
int64_t WorstCaseBlocks(int32_t memory_tokens, int32_t max_rows, int32_t max_total_tokens,
                        int32_t block_size);

}  // namespace beamline
