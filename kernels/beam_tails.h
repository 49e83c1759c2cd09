// Who gets which half-filled block when the beams of a search descend from each other anew. The
// device moves the blocks before the host knows the parents, and the host then does the same in its
// books: both follow this rule.
#pragma once

#include <cstdint>
#include <span>

namespace beamline {

// Row i goes on in the block of row blocks_of[i]; copied: after a copy of its parent's block.
struct BeamTail {
  int32_t blocks_of = 0;
  bool copied = false;
};

// The first child of a parent goes on in the parent's block. The others take the blocks of rows
// without children, both in ascending order: there are as many. No block is copied from and to.
// parents: [num_rows], each below num_rows; tails: [num_rows].
void AssignTails(std::span<const int32_t> parents, std::span<BeamTail> tails);

}  // namespace beamline
