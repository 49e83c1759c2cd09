// Which running group goes back to those that wait, when rows or blocks are short. Pure; groups are
// told by their index.
#pragma once

#include <cstdint>
#include <span>

#include "engine/scheduling/planner.h"

namespace beamline {

// When running groups miss blocks: the lowest priority, of these a group whose client runs others,
// then the last admitted. REQUIRES: one runs.
int32_t PutBackForBlocks(std::span<const GroupState> groups);

// What a group needs to start, and how much of it is missing.
struct Room {
  int32_t rows = 0;
  int32_t blocks = 0;
  int32_t missing_rows = 0;    // <= 0: none
  int32_t missing_blocks = 0;  // <= 0: none
};

// The group that makes room for `newcomer`, a waiting group of a client of which nothing runs; -1:
// none does. It has no higher priority and is the last admitted of the client that holds the most.
// No client gives up what it would then have less of than the newcomer, and nothing is put back
// where all that clients give would not be enough. Blocks that groups share count for each, so that
// several calls may be needed, and the last of them may return -1.
int32_t PutBackFor(const GroupState& newcomer, const Room& room,
                   std::span<const GroupState> groups);

}  // namespace beamline
