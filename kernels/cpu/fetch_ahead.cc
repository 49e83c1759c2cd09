#include "kernels/cpu/fetch_ahead.h"

#include <algorithm>
#include <cstdint>

#include "kernels/cpu/fetch_lines.h"

namespace beamline::cpu {
namespace {

// Calls body(begin, num_keys) with the part of `rows` in each block.
template <typename Body>
void ForEachBlock(const KvRows& rows, const KeysAhead& ahead, const Body& body) {
  const int end = ahead.first_key + ahead.num_keys;
  for (int key = ahead.first_key; key < end; key += rows.block_size) {
    const int64_t block = rows.block_table[key / rows.block_size];
    body(static_cast<const char*>(rows.base) + block * rows.block_stride * SizeOf(rows.dtype),
         std::min(end - key, rows.block_size));
  }
}

}  // namespace

// In a column layout the keys of a dimension are contiguous in a block, so a few keys take as many
// cache lines as all.
void FetchKeys(const KeysAhead& ahead) {
  if (ahead.num_keys <= 0) return;
  const KvRows& keys = ahead.tile->keys;
  const int64_t bytes = int64_t{ahead.tile->head_dim} * keys.block_size * SizeOf(keys.dtype);
  ForEachBlock(keys, ahead, [&](const char* begin, int /*num_keys*/) { FetchLines(begin, bytes); });
}

void FetchValues(const KeysAhead& ahead) {
  if (ahead.num_keys <= 0) return;
  const KvRows& values = ahead.tile->values;
  const int64_t row_bytes = values.row_stride * SizeOf(values.dtype);
  ForEachBlock(values, ahead,
               [&](const char* begin, int num_keys) { FetchLines(begin, num_keys * row_bytes); });
}

}  // namespace beamline::cpu
