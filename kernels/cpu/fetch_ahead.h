// Fetches cached keys and values into the second-level cache before a tile of attention reads them.
#pragma once

#include "kernels/cpu/attention_tile.h"

namespace beamline::cpu {

// Some keys of a tile whose turn comes. REQUIRES: they lie in blocks of a table, at the beginning
// of one the first.
struct KeysAhead {
  const AttentionTile* tile = nullptr;
  int first_key = 0;
  int num_keys = 0;  // none: nothing is fetched
};

void FetchKeys(const KeysAhead& ahead);
void FetchValues(const KeysAhead& ahead);

}  // namespace beamline::cpu
