// Plans what the next step computes. A pure function of the groups' state, the free blocks and the
// limits, so that tests can simulate it.
//
// The rules, in order:
// 1. Running groups come first, oldest admission first: the next token of each decoding row. A
//    group whose rows advance together (a beam search) gets all of its rows or none.
// 2. When blocks run out, one running group is preempted (put_back.h). The plan then contains only
//    that: its blocks are released and the step is planned again. (How many blocks it frees
//    depends on sharing, which the planner does not see.)
//    The only running group is never preempted: admission checks that any group fits alone.
// 3. Waiting groups are admitted in the given order (Scheduler uses
//    engine/scheduling/waiting_order.h) while there are rows, tokens and blocks, and the watermark
//    stays free. A step that preempted admits none.
//    The first group that does not fit ends admission, so that large requests do not starve.
//    Groups of clients that have nothing running are an exception. For the first of these that
//    does not fit, a group of a client with more is preempted (put_back.h), and the step is
//    planned again with only that newcomer.
//    Blocks that prompts in progress still need are not given to others.
// 4. The remaining tokens of the step go to prompts, in chunks: in equal shares to the clients
//    that have prompts (prompt_shares.h), and within a client in the order of admission. Given
//    tokens whose logits are needed (Score, prompt log-probabilities) count as prompts, but
//    are not split. A client without a prompt in progress is admitted in addition, up to
//    kMostSharing clients.
//
// If the running groups are divided into lanes (StepLimits::num_lanes), a step computes the groups
// of one lane, while steps of the other lanes are in progress:
// - A group stays in its lane while it runs. In the order of admission, each waiting group is
//   assigned to the lane with the fewest rows at that point, preferably the step's own. The step
//   admits the groups of its lane. For the others it leaves rows and blocks, which the next steps
//   of their lanes take.
// - Any running group may be preempted, also in other lanes: work of earlier steps on its blocks
//   comes before anything that a later step does there. A group is not admitted again before its
//   results have been read.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string_view>
#include <vector>

#include "engine/transformer/step_limits.h"

namespace beamline {

// The planner's view of one growing sequence.
struct RowState {
  int32_t num_tokens = 0;          // known ids: prompt and generated
  int32_t num_computed = 0;        // tokens that are in the cache
  int32_t num_blocks = 0;          // in its block table, or in the cached prefix that admission
                                   // takes
  int32_t prefix_free_blocks = 0;  // waiting row: blocks of its cached prefix that are in the free
                                   // list
  int32_t num_logits = 1;          // last tokens that must be computed in one step
  bool shared_tail = false;        // the block of the next position is shared: writing copies it
};

struct GroupState {
  bool running = false;
  int32_t priority = 0;       // of a waiting group: including what waiting has added
  int64_t turn_priority = 0;  // the value by which WaitingOrder sorts it
  uint64_t admission = 0;     // order of admission of running groups
  int32_t max_rows = 1;       // maximum rows it may ever have
  int32_t memory_tokens = 0;  // encoder tokens still to compute; their blocks are not allocated yet
  int32_t lane = 0;           // of a running group
  // False: its next tokens are given and only their logits are needed; it may wait as a prompt
  // does.
  bool generates = true;
  std::string_view client;
  uint64_t last_prompt_step = 0;   // the last step that had tokens of its prompt
  std::span<const RowState> rows;  // at least one
};

struct RowChunk {
  int32_t group = 0;  // index into the planner's groups
  int32_t row = 0;
  int32_t num_tokens = 0;  // to compute, from num_computed on
};

struct StepPlan {
  int32_t preempt = -1;          // the group to preempt before planning again; -1: none
  int32_t instead = -1;          // the waiting group that gets its room; -1: the running groups do
  std::vector<int32_t> admit;    // groups, in order
  std::vector<int32_t> encode;   // groups whose encoder input runs in this step
  std::vector<int32_t> prompts;  // groups with prompt tokens in this step
  std::vector<RowChunk> chunks;  // by group, rows ascending
  int32_t num_tokens = 0;        // of chunks and encoder inputs

  void Clear();
};

// Maximum prompt tokens of a step, at least 1, including encoder inputs. Work that cannot be split
// (an encoder input, tokens whose logits are needed) may exceed it, one group at a time.
struct PromptTokens {
  int32_t beside_decoding = std::numeric_limits<int32_t>::max();  // while any group decodes
  int32_t alone = std::numeric_limits<int32_t>::max();
};

struct StepOptions {
  int32_t lane = 0;
  // Groups are admitted while fewer rows than this run. A group of a client that has nothing
  // running is admitted above it too, as long as fewer clients than this run.
  int32_t width = std::numeric_limits<int32_t>::max();
  PromptTokens prompt_tokens;
  // Number of groups at the end of the list that are out of order, because their clients have
  // nothing running. Waiting groups of other clients with no higher priority leave them the room
  // they need.
  int32_t num_newcomers = 0;
  // Admits the only waiting group to this lane even if another lane has fewer rows, because another
  // group was preempted for it.
  bool keeps_lane = false;
};

// Clients whose prompts may share a step, beyond those whose prompts fit completely.
inline constexpr int32_t kMostSharing = 8;

// Fills `plan`, whose memory is reused from step to step. Groups that are not running may be
// admitted.
void PlanStep(std::span<const GroupState> groups, int32_t free_blocks, const StepLimits& limits,
              StepPlan& plan, const StepOptions& options = {});

// Maximum blocks that a group of this shape can hold, with nothing shared. Admission compares it
// with the pool.
int64_t WorstCaseBlocks(int32_t memory_tokens, int32_t max_rows, int32_t max_total_tokens,
                        int32_t block_size);

}  // namespace beamline
