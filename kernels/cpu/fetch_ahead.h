// Prefetches cached keys and values into the L2 cache before an attention tile reads them.
#pragma once

#include "kernels/cpu/attention_tile.h"

namespace beamline::cpu {

// Keys of a tile that is computed next. REQUIRES: they are paged, and first_key is at the start of
// a block.
struct KeysAhead {
  const AttentionTile* tile = nullptr;
  int first_key = 0;
  int num_keys = 0;  // 0: nothing to fetch
};

void FetchKeys(const KeysAhead& ahead);
void FetchValues(const KeysAhead& ahead);

}  // namespace beamline::cpu
