// The order in which the blocks of attention_wgmma.cu process the tiles of query rows. Pure: does
// not use a device.
#pragma once

#include <cstdint>

#include "kernels/backend.h"

namespace beamline::cuda {

struct TileList {
  // Rows of a sequence and of 2^head_shift query heads that share their keys are numbered
  // query-major. Such a set of heads is a unit. A pair is a sequence and a unit.
  int head_shift = 0;
  int num_units = 0;  // sets of 2^head_shift query heads
  int row_tiles = 0;  // of the longest sequence
  int64_t num_pairs = 0;
  int64_t pairs_per_round = 0;
  int64_t size = 0;

  struct Place {
    int64_t pair;  // empty from num_pairs on
    int row_tile;
  };
  // The list consists of rounds. A round has all tiles of its pairs, the last row tiles first,
  // because with a causal mask these have the most keys.
  constexpr Place At(int64_t place) const {
    const int64_t round_size = pairs_per_round * row_tiles;
    const int64_t within = place % round_size;
    return {place / round_size * pairs_per_round + within % pairs_per_round,
            row_tiles - 1 - static_cast<int>(within / pairs_per_round)};
  }
  // The place in the list that a block takes in a turn. Every second turn reverses the order of the
  // blocks, so that no block gets the longest tile of every turn. Places from `size` on are empty.
  static constexpr int64_t PlaceOf(int64_t turn, int64_t block, int64_t num_blocks) {
    return turn * num_blocks + (turn % 2 == 0 ? block : num_blocks - 1 - block);
  }
};

// log2 of the query heads of a tile: those that share their keys, as far as they divide the rows of
// a warpgroup.
int HeadShift(int group_size);

// The list for a call whose blocks compute rows_per_tile rows at a time.
TileList MakeTileList(const AttentionParams& params, int rows_per_tile);

}  // namespace beamline::cuda
