// Chooses the running group to preempt when rows or blocks are short. No state; groups are
// identified by their index.
#pragma once

#include <cstdint>
#include <span>

#include "engine/scheduling/planner.h"

namespace beamline {

// For running groups that lack blocks: chooses the lowest priority, then a group whose client runs
// others, then the last admitted. REQUIRES: a group runs.
int32_t PutBackForBlocks(std::span<const GroupState> groups);

// What a group needs to start, and how much is missing.
struct Room {
  int32_t rows = 0;
  int32_t blocks = 0;
  int32_t missing_rows = 0;    // <= 0: none
  int32_t missing_blocks = 0;  // <= 0: none
};

// The group to preempt for `newcomer`, a waiting group of a client that has nothing running; -1:
// none. Groups of higher priority than the newcomer are never chosen. Chooses the lowest priority,
// then the client that holds the most, then the last admitted. Each client keeps a group, and keeps
// at least as much as the newcomer needs. Nothing is preempted if all that clients may give would
// not be enough. A block shared by groups counts for each. So several calls may be needed, and the
// last of them may return -1.
int32_t PutBackFor(const GroupState& newcomer, const Room& room,
                   std::span<const GroupState> groups);

}  // namespace beamline
