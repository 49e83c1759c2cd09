// What the blocks of attention_wgmma.cu work on: the list of tiles of query rows, a block's shared
// memory, and the warp that copies tiles there.
#pragma once

#include <cstdint>

#include "base/math.h"
#include "kernels/cuda/attention/attention_args.cuh"
#include "kernels/cuda/attention/attention_picker.h"
#include "kernels/cuda/attention/attention_tile_list.h"
#include "kernels/cuda/device/hopper.cuh"

namespace beamline::cuda::wgmma {

inline constexpr int kKeys = kWgmmaKeys;  // of a tile
inline constexpr int kGroupRows = 64;     // query rows of a warpgroup
inline constexpr int kWarpsPerGroup = kWarpgroupSize / kWarpSize;
inline constexpr int kQueryStages = 2;

// kNumGroups: warpgroups of a block that multiply. One is enough where sequences have few rows.
template <int kHeadDim, int kNumGroups>
struct Shape {
  static constexpr int kHeadSize = kHeadDim;
  static constexpr int kGroups = kNumGroups;
  static constexpr bool kAlone = kGroups == 1;
  static constexpr int kThreads = kGroups * kWarpgroupSize + (kAlone ? kWarpSize : kWarpgroupSize);
  static constexpr int kRows = kGroups * kGroupRows;
  static constexpr int kStages = kHeadDim == 64 && !kAlone ? 4 : 2;
  static constexpr int kParts = kHeadDim / kSwizzledColumns;
  static constexpr int kBlocks = kHeadDim == 64 && kAlone ? 2 : 1;  // of a multiprocessor
  // Registers of a thread, which together are what a multiprocessor has.
  static constexpr int kCopyRegisters = kHeadDim == 64 ? 32 : 40;
  static constexpr int kMultiplyRegisters = kHeadDim == 64 ? 160 : 232;
};

// A tile of query rows. The rows of a sequence and of 2^head_shift query heads that share their
// keys are numbered query-major (TileList).
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

// The tile at a place of the list; one without rows where there is none.
template <typename T>
__device__ Tile TileAt(const AttentionArgs<T>& args, const TileList& list, int64_t place,
                       int rows) {
  Tile tile = {};
  const TileList::Place at = list.At(place);
  if (place >= list.size || at.pair >= list.num_pairs) return tile;
  tile.sequence = static_cast<int>(at.pair / list.num_units);
  const SequenceSpan span = SpanOf(args, tile.sequence);
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

// What the copying warp does.
template <typename T, typename S>
struct Copier {
  static constexpr int kTileBytes = kKeys * S::kHeadSize * static_cast<int>(sizeof(T));

  Shared<T, S>& shared;
  const Maps& maps;
  const AttentionArgs<T>& args;
  const TileList& list;
  const int box_keys;  // of a copy
  const int lane;
  Ring<kQueryStages> queries = {0, 1};  // nothing to wait for in the first round
  Ring<S::kStages> stages = {0, 1};

  __device__ void Run() {
    for (int64_t turn = 0; turn * gridDim.x < list.size; turn += kWarpSize) {
      const int64_t place = TileList::PlaceOf(turn + lane, blockIdx.x, gridDim.x);
      const Tile own = TileAt(args, list, place, S::kRows);
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
    int row = FirstRow(tile, tile.num_key_tiles - 1);
    for (int i = tile.num_key_tiles - 1; i >= 0; --i) {
      const int next = FirstRow(tile, i - 1);  // on its way while this tile waits for room
      CopyKeys(tile, i, row);
      row = next;
    }
  }

  // The first key of this lane's box: a block of the cache or the part of it that is in the tile,
  // of packed keys the whole tile.
  __device__ int FirstKey(int key_tile) const {
    return key_tile * kKeys + lane % (kKeys / box_keys) * box_keys;
  }
  // The row at which this lane's box begins, in the tensor that it lies in.
  __device__ int FirstRow(const Tile& tile, int key_tile) const {
    const int first_key = FirstKey(key_tile);
    if (key_tile < 0 || first_key >= tile.context) return 0;
    if (args.block_tables == nullptr) return tile.first_query + first_key;
    const int block = args.block_size.Quotient(first_key);
    const int64_t entry = int64_t{tile.sequence} * args.max_blocks + block;
    return (args.block_tables[entry] * args.num_kv_heads + tile.first_head / args.group_size) *
               args.block_size.value() +
           first_key - block * args.block_size.value();
  }

  // A tile whose first_row is below 0 ends the list.
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

  __device__ void CopyKeys(const Tile& tile, int key_tile, int row) {
    const int boxes = kKeys / box_keys;
    const int part = lane / boxes;
    const int count = min(max(tile.context - FirstKey(key_tile), 0), box_keys);
    const int head = args.block_tables == nullptr ? tile.first_head / args.group_size : 0;
    const int to = part * kKeys * kSwizzledColumns + lane % boxes * box_keys * kSwizzledColumns;
    const int at = stages.at;
    const auto copy = [&](const CUtensorMap& map, T* tiles, SharedBarrier& empty,
                          SharedBarrier& full) {
      WaitFor(empty, stages.parity);
      if (lane == 0) ArriveAndExpect(full, kTileBytes);
      __syncwarp();
      if (part < S::kParts) {
        CopyBox(tiles + to, map, part * kSwizzledColumns, head, box_keys - count, row + count,
                full);
      }
    };
    copy(maps.keys, shared.keys[at][0], shared.key_empty[at], shared.key_full[at]);
    copy(maps.values, shared.values[at][0], shared.value_empty[at], shared.value_full[at]);
    stages.Advance();
  }
};

}  // namespace beamline::cuda::wgmma
