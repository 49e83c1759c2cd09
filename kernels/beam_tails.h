// Assigns the half-filled blocks of a beam search to the beams of the next step. The device moves
// the blocks before the host knows the beams' parents, and the host updates its tables later. Both
// use this rule.
//
// The first child of a parent keeps the parent's block. The other children take the blocks of rows
// without children, both in ascending order: their numbers are equal. No block is both the source
// and the target of a copy.
#pragma once

#include <cstdint>
#include <span>

#include "base/check.h"
#include "kernels/host_device.h"

namespace beamline {

// A row uses the block of row `blocks_of`. `copied`: after a copy of its parent's block.
struct BeamTail {
  int32_t blocks_of = 0;
  bool copied = false;
};

// Takes the rows in order and returns the block of each.
class BeamTailWalk {
 public:
  // parents: [num_rows], each in [0, num_rows); outlives the walk.
  BEAMLINE_HOST_DEVICE BeamTailWalk(const int32_t* parents, int32_t num_rows)
      : parents_(parents), num_rows_(num_rows) {}

  // The block of the next row. REQUIRES: at most num_rows calls.
  BEAMLINE_HOST_DEVICE BeamTail Next() {
    const int32_t parent = parents_[row_];
    const bool first = !Occurs(parent, row_);
    ++row_;
    if (first) return {parent, false};
    do {
      ++childless_;
    } while (Occurs(childless_, num_rows_));
    return {childless_, true};
  }

 private:
  // True if `parent` is the parent of one of the first `num_rows` rows.
  BEAMLINE_HOST_DEVICE bool Occurs(int32_t parent, int32_t num_rows) const {
    for (int32_t row = 0; row < num_rows; ++row) {
      if (parents_[row] == parent) return true;
    }
    return false;
  }

  const int32_t* parents_;
  int32_t num_rows_;
  int32_t row_ = 0;         // the next row
  int32_t childless_ = -1;  // the last row without children whose block was assigned
};

// For all rows. parents, tails: [num_rows].
inline void AssignTails(std::span<const int32_t> parents, std::span<BeamTail> tails) {
  BEAMLINE_CHECK(parents.size() == tails.size());
  BeamTailWalk walk(parents.data(), static_cast<int32_t>(parents.size()));
  for (BeamTail& tail : tails) tail = walk.Next();
}

}  // namespace beamline
