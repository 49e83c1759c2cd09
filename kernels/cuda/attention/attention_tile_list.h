// The order in which the blocks of attention_wgmma.cu work through the tiles of query rows. Pure:
// no device is asked.
#pragma once

#include <cstdint>

#include "kernels/backend.h"

namespace beamline::cuda {

struct TileList {
  // The rows of a sequence and of 2^head_shift query heads that share their keys are numbered
  // query-major. A pair is a sequence and one such set of heads, a unit.
  int head_shift = 0;
  int num_units = 0;  // sets of 2^head_shift query heads
  int row_tiles = 0;  // of the longest sequence
  int64_t num_pairs = 0;
  int64_t pairs_per_round = 0;
  int64_t size = 0;

  struct Place {
    int64_t pair;  // nothing is there from num_pairs on
    int row_tile;
  };
  // The list goes round by round. A round has all tiles of its pairs, the last tile of rows first:
  // with a causal mask it has the most keys.
  constexpr Place At(int64_t place) const {
    const int64_t round_size = pairs_per_round * row_tiles;
    const int64_t within = place % round_size;
    return {place / round_size * pairs_per_round + within % pairs_per_round,
            row_tiles - 1 - static_cast<int>(within / pairs_per_round)};
  }
  // The place in the list that a block takes in a turn. Every second turn goes the other way round,
  // so that no block gets the longest tile of each. Places from `size` on are empty.
  static constexpr int64_t PlaceOf(int64_t turn, int64_t block, int64_t num_blocks) {
    return turn * num_blocks + (turn % 2 == 0 ? block : num_blocks - 1 - block);
  }
};

// Query heads of a tile, as a power of two: those that share their keys, as far as they fill the
// rows of a warpgroup without a rest.
int HeadShift(int group_size);

// The list for a call whose blocks compute rows_per_tile rows at a time.
TileList MakeTileList(const AttentionParams& params, int rows_per_tile);

}  // namespace beamline::cuda
