// The work of the blocks of attention_wgmma.cu: the tiles of query rows, a block's shared memory,
// and the warp that copies tiles to it.
#pragma once

#include <cstdint>

#include "base/math.h"
#include "kernels/cuda/attention/attention_args.cuh"
#include "kernels/cuda/attention/attention_picker.h"
#include "kernels/cuda/attention/attention_tile_list.h"
#include "kernels/cuda/device/hopper.cuh"
#include "kernels/cuda/device/launch.cuh"

namespace beamline::cuda::wgmma {

inline constexpr int kKeys = kWgmmaKeys;  // of a tile
inline constexpr int kTileShift = 7;      // log2 of kKeys
inline constexpr int kGroupShift = 3;     // log2 of the keys in a group of rows (hopper.cuh)
static_assert(kKeys == 1 << kTileShift);
inline constexpr int kGroupRows = 64;  // query rows of a warpgroup
inline constexpr int kWarpsPerGroup = kWarpgroupSize / kWarpSize;
inline constexpr int kQueryStages = 2;

// kNumGroups: warpgroups of a block that multiply. One is enough if sequences have few rows.
// kInGroups: a box of keys is whole rows in groups of eight, as blocks of a cache have them one
// after the other. Otherwise a box is a part of 64 columns. For heads of 64 both are the same.
template <int kHeadDim, int kNumGroups, bool kInGroups = false>
struct Shape {
  static constexpr int kHeadSize = kHeadDim;
  static constexpr bool kWholeRows = kInGroups;
  static constexpr int kGroups = kNumGroups;
  static constexpr bool kAlone = kGroups == 1;
  static constexpr int kThreads = kGroups * kWarpgroupSize + (kAlone ? kWarpSize : kWarpgroupSize);
  static constexpr int kRows = kGroups * kGroupRows;
  static constexpr int kStages = kHeadDim == 64 && !kAlone ? 4 : 2;
  static constexpr int kParts = kHeadDim / kSwizzledColumns;
  static constexpr int kBoxParts = kInGroups ? 1 : kParts;  // boxes side by side
  static constexpr int kBoxColumns = kHeadDim / kBoxParts;
  // Strides of a tile of keys or values in bytes: between its groups of eight rows, and between its
  // parts of 64 columns.
  static constexpr int kGroupBytes = kInGroups ? kParts * kSwizzledGroupBytes : kSwizzledGroupBytes;
  static constexpr int kPartBytes =
      kInGroups ? kSwizzledGroupBytes : (kKeys >> kGroupShift) * kSwizzledGroupBytes;
  static constexpr int kBlocks = kHeadDim == 64 && kAlone ? 2 : 1;  // per multiprocessor
  // Registers of a thread. All threads together use all registers of a multiprocessor.
  static constexpr int kCopyRegisters = kHeadDim == 64 ? 32 : 40;
  static constexpr int kMultiplyRegisters = kHeadDim == 64 ? 160 : 232;
};

// A tile of query rows. Rows of a sequence and of 2^head_shift query heads that share their keys
// are numbered query-major (TileList).
struct Tile {
  int sequence, first_query, query_length, context;
  int first_head, first_row;
  int num_key_tiles;
};

template <typename T, typename S>
struct Shared {
  T queries[kQueryStages][S::kGroups][S::kParts][kGroupRows * kSwizzledColumns];
  T keys[S::kStages][S::kParts][kKeys * kSwizzledColumns];
  T values[S::kStages][S::kParts][kKeys * kSwizzledColumns];
  SharedBarrier query_full[kQueryStages], query_empty[kQueryStages];
  SharedBarrier key_full[S::kStages], key_empty[S::kStages];
  SharedBarrier value_full[S::kStages], value_empty[S::kStages];
  Tile tiles[kQueryStages];
};

struct Maps {
  CUtensorMap query, keys, values;
  CUtensorMap last_keys, last_values;  // for Shape::kWholeRows: groups at the end of a context
};

// The tile of lane `from`, in every lane.
__device__ inline Tile Broadcast(const Tile& tile, int from) {
  const auto of = [&](int value) { return __shfl_sync(kFullMask, value, from); };
  return {of(tile.sequence),   of(tile.first_query), of(tile.query_length), of(tile.context),
          of(tile.first_head), of(tile.first_row),   of(tile.num_key_tiles)};
}

// Keys that a row sees.
template <typename T>
__device__ int KeysOf(const AttentionArgs<T>& args, const Tile& tile, int row, int head_shift) {
  if (!args.causal) return tile.context;
  return max(0, tile.context - tile.query_length + (row >> head_shift) + 1);
}

// The tile at a place of the list. It has no rows if the place is empty. May be called before
// WaitForEarlierKernels.
template <typename T>
__device__ Tile TileAt(const AttentionArgs<T>& args, const TileList& list, int64_t place,
                       int rows) {
  Tile tile = {};
  const TileList::Place at = list.At(place);
  if (place >= list.size || at.pair >= list.num_pairs) return tile;
  tile.sequence = static_cast<int>(at.pair / list.num_units);
  const SequenceSpan span = EarlySpanOf(args, tile.sequence);
  tile.first_row = at.row_tile * rows;
  const int num_rows = span.query_length << list.head_shift;
  if (tile.first_row >= num_rows) return tile;
  tile.first_query = span.first_query;
  tile.query_length = span.query_length;
  tile.context = span.context;
  tile.first_head = static_cast<int>(at.pair % list.num_units) << list.head_shift;
  const int last_row = min(tile.first_row + rows, num_rows) - 1;
  tile.num_key_tiles = CeilDiv(KeysOf(args, tile, last_row, list.head_shift), kKeys);
  return tile;
}

// The copying warp.
template <typename T, typename S>
struct Copier {
  static constexpr int kTileBytes = kKeys * S::kHeadSize * static_cast<int>(sizeof(T));

  Shared<T, S>& shared;
  const Maps& maps;
  const AttentionArgs<T>& args;
  const TileList& list;
  const int box_shift;  // log2 of the keys of a copy
  const int lane;
  Ring<kQueryStages> queries = {0, 1};  // nothing to wait for in the first round
  Ring<S::kStages> stages = {0, 1};

  // Calls WaitForEarlierKernels when it knows the first tiles.
  __device__ void Run() {
    for (int64_t turn = 0; turn * gridDim.x < list.size; turn += kWarpSize) {
      const int64_t place = TileList::PlaceOf(turn + lane, blockIdx.x, gridDim.x);
      const Tile own = TileAt(args, list, place, S::kRows);
      if (turn == 0) WaitForEarlierKernels();
      for (unsigned left = __ballot_sync(kFullMask, own.query_length > 0); left != 0;
           left &= left - 1) {
        CopyTile(Broadcast(own, __ffs(static_cast<int>(left)) - 1));
      }
    }
    Tile end = {};
    end.first_row = -1;
    CopyQueries(end);
  }

  __device__ void CopyTile(const Tile& tile) {
    CopyQueries(tile);
    const int head = tile.first_head / args.group_size;  // key-value head
    int block = BlockOf(tile, tile.num_key_tiles - 1);
    for (int i = tile.num_key_tiles - 1; i >= 0; --i) {
      const int next = BlockOf(tile, i - 1);  // loaded while this tile waits for room
      CopyKeys(tile, head, i, block);
      block = next;
    }
  }

  // Whether a tile of keys is copied group by group, because the context ends in it.
  __device__ static bool InGroups(const Tile& tile, int key_tile) {
    return S::kWholeRows && (key_tile + 1) * kKeys > tile.context;
  }
  // log2 of the keys of a box. For a cache: a block, or the part of it that is in the tile. For
  // packed keys: the whole tile.
  __device__ int BoxShift(const Tile& tile, int key_tile) const {
    return InGroups(tile, key_tile) ? kGroupShift : box_shift;
  }
  // The first key of this lane's box.
  __device__ int FirstKey(const Tile& tile, int key_tile) const {
    const int shift = BoxShift(tile, key_tile);
    return key_tile * kKeys + ((lane << shift) & (kKeys - 1));
  }
  // The cache block of this lane's box; 0 for packed keys. It is not used before its tile's turn,
  // because a warp waits for a load at the first use of its result.
  __device__ int BlockOf(const Tile& tile, int key_tile) const {
    const int first_key = FirstKey(tile, key_tile);
    if (key_tile < 0 || first_key >= tile.context || args.block_tables == nullptr) return 0;
    return args.block_tables[int64_t{tile.sequence} * args.max_blocks +
                             args.block_size.Quotient(first_key)];
  }

  // A tile with a negative first_row ends the list.
  __device__ void CopyQueries(const Tile& tile) {
    constexpr int kBytes = S::kRows * S::kHeadSize * static_cast<int>(sizeof(T));
    WaitFor(shared.query_empty[queries.at], queries.parity);
    SharedBarrier& full = shared.query_full[queries.at];
    if (lane == 0) {
      shared.tiles[queries.at] = tile;
      if (tile.first_row < 0) {
        Arrive(full);
      } else {
        ArriveAndExpect(full, kBytes);
      }
    }
    __syncwarp();
    if (tile.first_row >= 0 && lane < S::kGroups * S::kParts) {
      const int group = lane / S::kParts, part = lane % S::kParts;
      const int box_rows = kGroupRows >> list.head_shift;
      const int first = (tile.first_row + group * kGroupRows) >> list.head_shift;
      const int count = min(max(tile.query_length - first, 0), box_rows);
      CopyBox(shared.queries[queries.at][group][part], maps.query, part * kSwizzledColumns,
              tile.first_head, box_rows - count, tile.first_query + (count > 0 ? first + count : 0),
              full);
    }
    queries.Advance();
  }

  // block: the cache block of this lane's box (BlockOf).
  __device__ void CopyKeys(const Tile& tile, int head, int key_tile, int block) {
    const bool in_groups = InGroups(tile, key_tile), paged = args.block_tables != nullptr;
    const int shift = BoxShift(tile, key_tile), keys = 1 << shift;
    const int place = (lane << shift) & (kKeys - 1), part = lane >> (kTileShift - shift);
    const int first_key = key_tile * kKeys + place;
    const int count = min(max(tile.context - first_key, 0), keys);
    const int to = part * kKeys * kSwizzledColumns + place * S::kBoxColumns;
    // The first row of the box, in the tensor that contains it.
    int row = tile.first_query + first_key;
    if (paged) {
      const int block_size = args.block_size.value();
      row = (block * args.num_kv_heads + head) * block_size + first_key -
            args.block_size.Quotient(first_key) * block_size;
      head = 0;
    }
    if (count == 0) row = 0;
    const int at = stages.at;
    const auto copy = [&](const CUtensorMap& map, const CUtensorMap& last_map, T* tiles,
                          SharedBarrier& empty, SharedBarrier& full) {
      WaitFor(empty, stages.parity);
      if (lane == 0) ArriveAndExpect(full, kTileBytes);
      __syncwarp();
      if (part >= S::kBoxParts) return;
      if (!S::kWholeRows) {
        CopyBox(tiles + to, map, part * kSwizzledColumns, head, keys - count, row + count, full);
      } else if (in_groups) {
        CopyBox(tiles + to, last_map, 0, keys - count, 0, row + count, full);
      } else {
        CopyBox(tiles + to, map, 0, 0, 0, row >> kGroupShift, full);
      }
    };
    copy(maps.keys, maps.last_keys, shared.keys[at][0], shared.key_empty[at], shared.key_full[at]);
    copy(maps.values, maps.last_values, shared.values[at][0], shared.value_empty[at],
         shared.value_full[at]);
    stages.Advance();
  }
};

}  // namespace beamline::cuda::wgmma
