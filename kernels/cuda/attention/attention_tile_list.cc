#include "kernels/cuda/attention/attention_tile_list.h"

#include <algorithm>
#include <bit>

#include "base/math.h"
#include "kernels/cuda/attention/attention_picker.h"

namespace beamline::cuda {
namespace {

// Bytes of the keys and values of a round's pairs. They are few enough that every row tile but the
// first reads them from L2. Tiles of equal length need few pairs to fill the GPU. A causal mask
// makes their lengths differ, and more pairs even that out. Measured on an H200: without a mask, 8
// MiB are 7 to 11% faster than 40; with one, 24 and 32 MiB are up to 20% slower.
constexpr int64_t kRoundBytes = int64_t{8} << 20;
constexpr int64_t kCausalRoundBytes = int64_t{40} << 20;

}  // namespace

int HeadShift(int group_size) {
  return std::min(std::countr_zero(static_cast<unsigned>(group_size)),
                  std::countr_zero(static_cast<unsigned>(kSmallWgmmaRows)));
}

TileList MakeTileList(const AttentionParams& params, int rows_per_tile) {
  TileList list;
  list.head_shift = HeadShift(params.num_heads / params.num_kv_heads);
  list.num_units = params.num_heads >> list.head_shift;
  list.row_tiles =
      static_cast<int>(CeilDiv(int64_t{params.max_query_length} << list.head_shift, rows_per_tile));
  list.num_pairs = int64_t{params.num_sequences} * list.num_units;
  const int64_t max_keys =
      params.cache == nullptr ? params.max_query_length : params.max_context_length;
  const int64_t pair_bytes =
      std::max<int64_t>(1, max_keys) * 2 * params.head_dim * static_cast<int64_t>(sizeof(uint16_t));
  const int64_t round_bytes = params.causal ? kCausalRoundBytes : kRoundBytes;
  list.pairs_per_round = std::clamp<int64_t>(round_bytes / pair_bytes, 1, list.num_pairs);
  list.size = RoundUp(list.num_pairs, list.pairs_per_round) * list.row_tiles;
  return list;
}

}  // namespace beamline::cuda
