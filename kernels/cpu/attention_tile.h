// The inner part of attention: a tile of query rows that share one key-value head, over that head's
// keys.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/cpu/scratch.h"
#include "kernels/tensor.h"

namespace beamline::cpu {

// Rows of a tile, and keys that it meets at a time. Blocks of keys start at multiples of kKeyBlock
// counted from position 0, and a row's arithmetic does not depend on the tile's other rows: so a
// query's result is the same alone, in any batch and however its prefill is chunked.
inline constexpr int kTileRows = 32;
inline constexpr int kKeyBlock = 64;

// Where one sequence's keys (or values) of one head lie: consecutive rows, or blocks of them. Their
// strides count elements.
struct KvRows {
  const void* base = nullptr;            // of this head; with a block table, in block 0
  DType dtype = DType::kFloat32;         // or a 16-bit one
  int64_t row_stride = 0;                // within a block
  const int32_t* block_table = nullptr;  // null: one block holds everything
  int block_size = 0;
  int64_t block_stride = 0;

  // The rows of positions first .. first + count - 1. The last one is repeated up to
  // `padded_count`.
  void Rows(int first, int count, int padded_count, const char** rows) const {
    const auto element = static_cast<int64_t>(SizeOf(dtype));
    int entry = block_table == nullptr ? 0 : first / block_size;
    int offset = first - entry * block_size;
    const char* row = nullptr;
    for (int i = 0; i < count; ++i) {
      if (block_table != nullptr && offset == block_size) {
        ++entry;
        offset = 0;
      }
      if (row == nullptr || offset == 0) {
        const int64_t block = block_table == nullptr ? 0 : block_table[entry];
        row =
            static_cast<const char*>(base) + (block * block_stride + offset * row_stride) * element;
      } else {
        row += row_stride * element;
      }
      rows[i] = row;
      ++offset;
    }
    for (int i = count; i < padded_count; ++i) rows[i] = row;
  }
};

struct AttentionTileRow {
  const float* query = nullptr;  // [head_dim]
  float* output = nullptr;       // [head_dim]
  int first_key = 0;             // it sees keys first_key .. num_keys - 1
  int num_keys = 0;
  int position = 0;
  float alibi_slope = 0.0f;
  // Indexed by key - position, clamped to +-max_distance; null without.
  const float* position_bias = nullptr;
};

// A head's part of RelativePositions.
struct TilePositions {
  bool empty() const { return keys == nullptr && queries == nullptr; }

  const float* keys = nullptr;  // row 0, [head_dim]; null: none
  const float* queries = nullptr;
  int64_t key_stride = 0, query_stride = 0;
  const int32_t* rows = nullptr;  // at distance 0
  int max_distance = 0;
};

struct AttentionTile {
  AttentionTileRow rows[kTileRows];
  int num_rows = 0;
  int head_dim = 0;
  int max_distance = 0;
  float scale = 1.0f;    // of the products of queries and keys
  float softcap = 0.0f;  // of these; 0: none
  float rounded_alibi_factor = 0.0f;
  KvRows keys;
  KvRows values;
  TilePositions positions;  // of rows whose positions are consecutive
};

void ComputeAttentionTile(const AttentionTile& tile, Scratch& scratch);

}  // namespace beamline::cpu
