// The inner part of attention: a tile of query rows with the same key-value head, over that head's
// keys.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/cpu/scratch.h"
#include "kernels/tensor.h"

namespace beamline::cpu {

// Rows of a tile, and keys per block. Blocks of keys start at multiples of kKeyBlock from position
// 0, and a row's arithmetic does not depend on the tile's other rows. So a query's result is the
// same alone, in any batch and with any chunks of its prefill.
inline constexpr int kTileRows = 32;
inline constexpr int kKeyBlock = 64;

// Location of one sequence's keys (or values) of one head, one row per position: contiguous rows,
// or blocks of rows. Strides count elements.
struct KvRows {
  const void* base = nullptr;            // of this head; with a block table, in block 0
  DType dtype = DType::kFloat32;         // or a 16-bit type
  int64_t row_stride = 0;                // within a block; 1 with element_stride
  int64_t element_stride = 1;            // within a row; block_size for KeyLayout::kColumns
  const int32_t* block_table = nullptr;  // null: one block holds everything
  int block_size = 0;
  int64_t block_stride = 0;

  // The row of a position. Stored has the size of dtype.
  template <typename Stored>
  const Stored* Row(int position) const {
    const int entry = block_table == nullptr ? 0 : position / block_size;
    return At<Stored>(entry, position - entry * block_size);
  }

  // The rows of positions first .. first + count - 1.
  template <typename Stored>
  void Rows(int first, int count, const Stored** rows) const {
    int entry = block_table == nullptr ? 0 : first / block_size;
    int offset = first - entry * block_size;
    const Stored* row = At<Stored>(entry, offset);
    for (int i = 0; i < count; ++i) {
      if (block_table != nullptr && offset == block_size) {
        offset = 0;
        row = At<Stored>(++entry, 0);
      }
      rows[i] = row;
      row += row_stride;
      ++offset;
    }
  }

 private:
  template <typename Stored>
  const Stored* At(int entry, int64_t offset) const {
    const int64_t block = block_table == nullptr ? 0 : block_table[entry];
    return static_cast<const Stored*>(base) + block * block_stride + offset * row_stride;
  }
};

struct AttentionTileRow {
  const float* query = nullptr;  // [head_dim]
  float* output = nullptr;       // [head_dim]
  int first_key = 0;             // sees keys first_key .. num_keys - 1
  int num_keys = 0;
  int position = 0;
  float alibi_slope = 0.0f;
  // Indexed by key - position, clamped to +-max_distance; null: none.
  const float* position_bias = nullptr;
};

// One head's part of RelativePositions.
struct TilePositions {
  bool empty() const { return keys == nullptr && queries == nullptr; }

  const float* keys = nullptr;  // row 0, [head_dim]; null: none
  const float* queries = nullptr;
  int64_t key_stride = 0, query_stride = 0;
  const int32_t* rows = nullptr;  // points to distance 0
  int max_distance = 0;
};

struct AttentionTile {
  AttentionTileRow rows[kTileRows];
  int num_rows = 0;
  int head_dim = 0;
  int max_distance = 0;
  float scale = 1.0f;    // of the products of queries and keys
  float softcap = 0.0f;  // of the scaled products; 0: none
  float rounded_alibi_factor = 0.0f;
  KvRows keys;
  KvRows values;
  TilePositions positions;  // REQUIRES: consecutive positions of rows
};

// `next`: the tile to compute after this one, or null. Its first keys and values are prefetched
// meanwhile.
void ComputeAttentionTile(const AttentionTile& tile, const AttentionTile* next, Scratch& scratch);

}  // namespace beamline::cpu
