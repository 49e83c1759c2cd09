// Blocked attention with an online softmax (Milakov and Gimelshein, arXiv:1805.02867; Dao,
// arXiv:2205.14135). Long because a block of keys passes through all of it while it is in cache.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/attention_tile.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
//
#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "base/math.h"
#include "kernels/cpu/attention_tile.h"
#include "kernels/cpu/fetch_ahead.h"
#include "kernels/cpu/simd-inl.h"
#include "kernels/cpu/transpose-inl.h"
#include "kernels/cpu/widen-inl.h"
#include "kernels/rounded_alibi.h"

HWY_BEFORE_NAMESPACE();
namespace beamline::cpu::HWY_NAMESPACE {

#if (HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3) || HWY_ARCH_ARM_A64
inline constexpr int kBlockVectors = 4;  // x 4 rows = 16 of 32 registers
#else
inline constexpr int kBlockVectors = 2;  // x 4 rows = 8 of 16 registers
#endif
inline constexpr int kBlockRows = 4;
// A single row has one chain of multiply-adds per vector. More chains hide their latency.
inline constexpr int kRowVectors = 8;
// Up to this many rows, 16-bit numbers are widened when loaded, once per kBlockRows rows. For more
// rows they are widened in advance.
inline constexpr int kWideningRows = 2 * kBlockRows;

// Number of distances between a tile's queries and a block's keys, rounded up to whole vectors.
inline constexpr int kDistances = kTileRows + kKeyBlock;

// Working memory of one tile. head_dim_padded is head_dim rounded up to whole vectors.
struct Workspace {
  float* keys;  // [head_dim, kKeyBlock]: the block's keys as columns, unless they are read in place
  float* wide;  // [kKeyBlock, head_dim]: 16-bit values, widened; otherwise null
  // [head_dim, kDistances] each: RelativePositions' rows for queries and for keys, transposed.
  // Indexed by key - query, from the block's first key and the tile's last query on. Null without
  // them.
  float* position_keys;
  float* position_queries;
  float* scores;  // [kTileRows, kKeyBlock]
  float* sums;    // [kTileRows, head_dim_padded]: sum of probability * value
  float* maxima;  // [kTileRows]
  float* totals;  // [kTileRows]: sum of probabilities
  float* decays;  // [kTileRows]: factor of the latest maximum for earlier sums
  int64_t head_dim_padded;
};

// A block of a tile's keys as columns: one dimension of several keys is contiguous.
template <typename Stored>
struct KeyColumns {
  const Stored* starts[kKeyBlock];  // dimension 0, per vector of keys
  int64_t stride = 0;               // to the next dimension
};

// The keys in the workspace.
KeyColumns<StoredFloat32> WorkspaceColumns(const Workspace& w) {
  const int lanes = static_cast<int>(NumLanes());
  KeyColumns<StoredFloat32> columns;
  columns.stride = kKeyBlock;
  for (int v = 0; v * lanes < kKeyBlock; ++v) {
    columns.starts[v] = reinterpret_cast<const StoredFloat32*>(w.keys + v * lanes);
  }
  return columns;
}

// Scores of kRows rows against kVectors vectors of keys, each with one chain of multiply-adds over
// head_dim.
template <int kRows, int kVectors, typename Stored>
HWY_INLINE void ScoreBlock(const AttentionTile& tile, const KeyColumns<Stored>& keys, int first_row,
                           int first_column, const Workspace& w) {
  const int lanes = static_cast<int>(NumLanes());
  const float* queries[kRows];
  for (int r = 0; r < kRows; ++r) queries[r] = tile.rows[first_row + r].query;
  VF sums[kRows][kVectors];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int c = 0; c < kVectors; ++c) sums[r][c] = hn::Zero(kF32);
  }
  const Stored* const* const starts = keys.starts + first_column / lanes;
  const Stored* columns[kVectors];
  for (int c = 0; c < kVectors; ++c) columns[c] = starts[c];
  int64_t offset = 0;
  for (int d = 0; d < tile.head_dim; ++d, offset += keys.stride) {
    VF k[kVectors];
#pragma GCC unroll 8
    for (int c = 0; c < kVectors; ++c) k[c] = LoadWide(columns[c] + offset);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const VF q = hn::Set(kF32, queries[r][d]);
#pragma GCC unroll 8
      for (int c = 0; c < kVectors; ++c) sums[r][c] = hn::MulAdd(q, k[c], sums[r][c]);
    }
  }
  const VF scale = hn::Set(kF32, tile.scale);
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    float* scores = w.scores + (first_row + r) * kKeyBlock + first_column;
#pragma GCC unroll 8
    for (int c = 0; c < kVectors; ++c) {
      hn::Store(hn::Mul(sums[r][c], scale), kF32, scores + c * lanes);
    }
  }
}

// The same for `num_vectors` vectors, at most kMost.
template <int kRows, int kMost, typename Stored>
HWY_INLINE void ScoreVectors(const AttentionTile& tile, const KeyColumns<Stored>& keys,
                             int first_row, int first_column, int num_vectors, const Workspace& w) {
  if constexpr (kMost > 0) {
    if (num_vectors == kMost) {
      return ScoreBlock<kRows, kMost>(tile, keys, first_row, first_column, w);
    }
    ScoreVectors<kRows, kMost - 1>(tile, keys, first_row, first_column, num_vectors, w);
  }
}

// REQUIRES: num_keys is a whole number of vectors.
template <int kRows, typename Stored>
void ScoreRows(const AttentionTile& tile, const KeyColumns<Stored>& keys, int first_row,
               int num_keys, const Workspace& w) {
  constexpr int kInBlock = kKeyBlock / static_cast<int>(hn::MaxLanes(F32()));
  constexpr int kMost = std::min(kInBlock, kRows == 1 ? kRowVectors : kBlockVectors);
  const int lanes = static_cast<int>(NumLanes());
  for (int j = 0; j < num_keys; j += kMost * lanes) {
    const int num_vectors = std::min(kMost, (num_keys - j) / lanes);
    ScoreVectors<kRows, kMost>(tile, keys, first_row, j, num_vectors, w);
  }
}

// Scores of all rows against a block of keys.
template <typename Stored>
void ScoreTile(const AttentionTile& tile, const KeyColumns<Stored>& keys, int num_keys,
               const Workspace& w) {
  int r = 0;
  for (; r + kBlockRows <= tile.num_rows; r += kBlockRows) {
    ScoreRows<kBlockRows>(tile, keys, r, num_keys, w);
  }
  for (; r < tile.num_rows; ++r) ScoreRows<1>(tile, keys, r, num_keys, w);
}

// Copies column keys of a block to float32 and makes them contiguous: w.keys[d][j] for j <
// padded_keys, zero from num_keys on.
template <typename Stored>
void GatherColumns(const AttentionTile& tile, int first_key, int num_keys, int padded_keys,
                   const Workspace& w) {
  const int block_size = tile.keys.block_size;
  int64_t count = 0;
  for (int j = 0; j < num_keys; j += static_cast<int>(count)) {
    const int offset = (first_key + j) % block_size;
    count = std::min(num_keys - j, block_size - offset);
    const Stored* from = tile.keys.Row<Stored>(first_key + j);
    for (int d = 0; d < tile.head_dim; ++d, from += tile.keys.element_stride) {
      WidenRow(from, count, w.keys + d * kKeyBlock + j);
    }
  }
  if (num_keys == padded_keys) return;
  for (int d = 0; d < tile.head_dim; ++d) {
    std::fill(w.keys + d * kKeyBlock + num_keys, w.keys + d * kKeyBlock + padded_keys, 0.0f);
  }
}

// Scores against column keys. Reads them in place if vectors do not cross blocks, and if they are
// not widened for many rows.
template <typename Stored>
void ScoreColumns(const AttentionTile& tile, int first_key, int num_keys, int padded_keys,
                  const Workspace& w) {
  const int lanes = static_cast<int>(NumLanes());
  const bool wide = std::is_same_v<Stored, StoredFloat32>;
  if (tile.keys.block_size % lanes == 0 && (wide || tile.num_rows <= kWideningRows)) {
    KeyColumns<Stored> columns;
    columns.stride = tile.keys.element_stride;
    for (int v = 0; v * lanes < padded_keys; ++v) {
      columns.starts[v] = tile.keys.Row<Stored>(first_key + v * lanes);
    }
    return ScoreTile(tile, columns, padded_keys, w);
  }
  GatherColumns<Stored>(tile, first_key, num_keys, padded_keys, w);
  ScoreTile(tile, WorkspaceColumns(w), padded_keys, w);
}

// The rows of `from` for the block's distances, transposed.
void ReadPositions(const AttentionTile& tile, const float* from, int64_t stride, int first_key,
                   int padded_keys, float* to) {
  const TilePositions& positions = tile.positions;
  const int lowest = first_key - tile.rows[tile.num_rows - 1].position;
  const int count = RoundUp(padded_keys + tile.num_rows - 1, static_cast<int>(NumLanes()));
  const float* rows[kDistances];
  for (int i = 0; i < count; ++i) {
    const int distance = std::clamp(lowest + i, -positions.max_distance, positions.max_distance);
    rows[i] = from + positions.rows[distance] * stride;
  }
  TransposeRows(kF32, rows, count, tile.head_dim, kDistances, to);
}

// Adds position terms to a row's scores against kVectors vectors of keys: a chain of multiply-adds
// over head_dim for the query, and one for the keys.
template <int kVectors, bool kHasKeys, bool kHasQueries>
HWY_INLINE void AddPositionBlock(const AttentionTile& tile, int row, int first_column,
                                 const Workspace& w) {
  const int lanes = static_cast<int>(NumLanes());
  const int first_distance = first_column + tile.num_rows - 1 - row;
  const float* const query = tile.rows[row].query;
  VF of_query[kVectors], of_keys[kVectors];
#pragma GCC unroll 8
  for (int c = 0; c < kVectors; ++c) of_query[c] = of_keys[c] = hn::Zero(kF32);
  for (int d = 0; d < tile.head_dim; ++d) {
    const VF q = hn::Set(kF32, query[d]);
#pragma GCC unroll 8
    for (int c = 0; c < kVectors; ++c) {
      const int distance = d * kDistances + first_distance + c * lanes;
      if constexpr (kHasKeys) {
        of_query[c] = hn::MulAdd(q, hn::LoadU(kF32, w.position_keys + distance), of_query[c]);
      }
      if constexpr (kHasQueries) {
        const VF k = hn::Load(kF32, w.keys + d * kKeyBlock + first_column + c * lanes);
        of_keys[c] = hn::MulAdd(k, hn::LoadU(kF32, w.position_queries + distance), of_keys[c]);
      }
    }
  }
  const VF scale = hn::Set(kF32, tile.scale);
  float* const scores = w.scores + row * kKeyBlock + first_column;
#pragma GCC unroll 8
  for (int c = 0; c < kVectors; ++c) {
    float* const at = scores + c * lanes;
    const VF added = hn::Mul(hn::Add(of_query[c], of_keys[c]), scale);
    hn::Store(hn::Add(hn::Load(kF32, at), added), kF32, at);
  }
}

template <bool kHasKeys, bool kHasQueries>
void AddPositionsOf(const AttentionTile& tile, int padded_keys, const Workspace& w) {
  const int lanes = static_cast<int>(NumLanes());
  for (int row = 0; row < tile.num_rows; ++row) {
    int j = 0;
    for (; j + kBlockVectors * lanes <= padded_keys; j += kBlockVectors * lanes) {
      AddPositionBlock<kBlockVectors, kHasKeys, kHasQueries>(tile, row, j, w);
    }
    for (; j < padded_keys; j += lanes) {
      AddPositionBlock<1, kHasKeys, kHasQueries>(tile, row, j, w);
    }
  }
}

// Adds position terms to the scores of a block of keys.
void AddPositions(const AttentionTile& tile, int first_key, int padded_keys, const Workspace& w) {
  const TilePositions& positions = tile.positions;
  if (positions.keys != nullptr) {
    ReadPositions(tile, positions.keys, positions.key_stride, first_key, padded_keys,
                  w.position_keys);
  }
  if (positions.queries != nullptr) {
    ReadPositions(tile, positions.queries, positions.query_stride, first_key, padded_keys,
                  w.position_queries);
  }
  if (positions.queries == nullptr) return AddPositionsOf<true, false>(tile, padded_keys, w);
  if (positions.keys == nullptr) return AddPositionsOf<false, true>(tile, padded_keys, w);
  AddPositionsOf<true, true>(tile, padded_keys, w);
}

void AddBiases(const AttentionTile& tile, const AttentionTileRow& row, int first_key, int num_keys,
               float* scores) {
  for (int j = 0; j < num_keys; ++j) {
    const int key = first_key + j;
    const int distance = key - row.position;
    scores[j] += tile.rounded_alibi_factor > 0.0f
                     ? RoundedAlibi(row.alibi_slope, key, tile.rounded_alibi_factor)
                     : -row.alibi_slope * static_cast<float>(std::abs(distance));
    if (row.position_bias != nullptr) {
      scores[j] += row.position_bias[std::clamp(distance, -tile.max_distance, tile.max_distance)];
    }
  }
}

// scores[j] = softcap * tanh(scores[j] / softcap). REQUIRES: num_scores is a whole number of
// vectors.
void CapScores(float softcap, int num_scores, float* scores) {
  const VF cap = hn::Set(kF32, softcap);
  for (int j = 0; j < num_scores; j += static_cast<int>(NumLanes())) {
    const VF share = hn::Div(hn::Load(kF32, scores + j), cap);
    hn::Store(hn::Mul(Activate<Activation::kTanh>(share), cap), kF32, scores + j);
  }
}

// Converts scores to probabilities relative to the row's running maximum. Keys that the row does
// not see get 0. padded_keys is the block's number of keys, rounded up to whole vectors.
void UpdateSoftmax(const AttentionTile& tile, int r, int first_key, int padded_keys,
                   const Workspace& w) {
  const AttentionTileRow& row = tile.rows[r];
  float* scores = w.scores + r * kKeyBlock;
  const int lanes = static_cast<int>(NumLanes());
  const int num_keys = std::clamp(row.num_keys - first_key, 0, padded_keys);
  w.decays[r] = 1.0f;
  const int num_unseen = std::clamp(row.first_key - first_key, 0, num_keys);
  if (num_unseen < num_keys) {
    if (tile.softcap > 0.0f) CapScores(tile.softcap, padded_keys, scores);
    if (row.alibi_slope != 0.0f || row.position_bias != nullptr) {
      AddBiases(tile, row, first_key, num_keys, scores);
    }
    std::fill_n(scores, num_unseen, -std::numeric_limits<float>::infinity());
    const VF lowest = hn::Set(kF32, -std::numeric_limits<float>::infinity());
    VF maxima = hn::Set(kF32, w.maxima[r]);
    int j = 0;
    for (; j + lanes <= num_keys; j += lanes) {
      maxima = hn::Max(maxima, hn::Load(kF32, scores + j));
    }
    if (j < num_keys) {
      const auto seen = hn::FirstN(kF32, num_keys - j);
      const VF last = hn::IfThenElse(seen, hn::Load(kF32, scores + j), lowest);
      hn::Store(last, kF32, scores + j);
      maxima = hn::Max(maxima, last);
    }
    const float maximum = Max(maxima);
    // Keeps a row whose scores are all -infinity at zero instead of NaN.
    const VF shift =
        hn::Set(kF32, maximum == -std::numeric_limits<float>::infinity() ? 0.0f : maximum);
    VF totals = hn::Zero(kF32);
    for (j = 0; j < num_keys; j += lanes) {
      const VF p = ExpNonPositive(hn::Sub(hn::Load(kF32, scores + j), shift));
      totals = hn::Add(totals, p);
      hn::Store(p, kF32, scores + j);
    }
    if (maximum != w.maxima[r]) {
      w.decays[r] = hn::GetLane(ExpNonPositive(hn::Sub(hn::Set(kF32, w.maxima[r]), shift)));
      w.maxima[r] = maximum;
    }
    w.totals[r] = w.totals[r] * w.decays[r] + Sum(totals);
  }
  // If the row sees no key of the block, all become zero.
  const int num_scores = num_unseen < num_keys ? RoundUp(num_keys, lanes) : 0;
  for (int j = num_scores; j < padded_keys; j += lanes) {
    hn::Store(hn::Zero(kF32), kF32, scores + j);
  }
}

// sums = sums * decay + probabilities * values, for kRows rows and kVectors vectors of columns.
template <int kRows, int kVectors, typename Stored>
void AccumulateBlock(const Stored* const* values, int num_keys, int64_t column, bool partial,
                     size_t num_columns, int first_row, const Workspace& w) {
  const int lanes = static_cast<int>(NumLanes());
  VF sums[kRows][kVectors];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    const VF decay = hn::Set(kF32, w.decays[first_row + r]);
    const float* from = w.sums + (first_row + r) * w.head_dim_padded + column;
#pragma GCC unroll 8
    for (int c = 0; c < kVectors; ++c) {
      sums[r][c] = hn::Mul(decay, hn::Load(kF32, from + c * lanes));
    }
  }
  const float* probabilities = w.scores + first_row * kKeyBlock;
  for (int j = 0; j < num_keys; ++j) {
    VF v[kVectors];
#pragma GCC unroll 8
    for (int c = 0; c < kVectors; ++c) {
      const Stored* from = values[j] + column + c * lanes;
      if constexpr (kVectors == 1 && std::is_same_v<Stored, StoredFloat32>) {
        v[c] = partial ? LoadFirst(&from->value, num_columns) : LoadWide(from);
      } else {
        v[c] = LoadWide(from);
      }
    }
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const VF p = hn::Set(kF32, probabilities[r * kKeyBlock + j]);
#pragma GCC unroll 8
      for (int c = 0; c < kVectors; ++c) sums[r][c] = hn::MulAdd(p, v[c], sums[r][c]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    float* to = w.sums + (first_row + r) * w.head_dim_padded + column;
#pragma GCC unroll 8
    for (int c = 0; c < kVectors; ++c) hn::Store(sums[r][c], kF32, to + c * lanes);
  }
}

template <int kRows, typename Stored>
void AccumulateRows(const AttentionTile& tile, const Stored* const* values, int first_row,
                    int first_key, const Workspace& w) {
  int num_keys = 0;
  for (int r = 0; r < kRows; ++r) {
    num_keys =
        std::max(num_keys, std::min(kKeyBlock, tile.rows[first_row + r].num_keys - first_key));
  }
  if (num_keys <= 0) return;
  const int64_t lanes = static_cast<int64_t>(NumLanes());
  int64_t column = 0;
  if constexpr (kRows == 1) {
    for (; column + kRowVectors * lanes <= tile.head_dim; column += kRowVectors * lanes) {
      AccumulateBlock<1, kRowVectors>(values, num_keys, column, false, 0, first_row, w);
    }
  }
  for (; column + kBlockVectors * lanes <= tile.head_dim; column += kBlockVectors * lanes) {
    AccumulateBlock<kRows, kBlockVectors>(values, num_keys, column, false, 0, first_row, w);
  }
  for (; column < tile.head_dim; column += lanes) {
    const int64_t rest = tile.head_dim - column;
    AccumulateBlock<kRows, 1>(values, num_keys, column, rest < lanes, rest, first_row, w);
  }
}

// Adds a block of values to the sums of all rows.
template <typename Stored>
void AccumulateTile(const AttentionTile& tile, const Stored* const* values, int first_key,
                    const Workspace& w) {
  int r = 0;
  for (; r + kBlockRows <= tile.num_rows; r += kBlockRows) {
    AccumulateRows<kBlockRows>(tile, values, r, first_key, w);
  }
  for (; r < tile.num_rows; ++r) AccumulateRows<1>(tile, values, r, first_key, w);
}

// The same with values in the cache. 16-bit values are widened first for many rows, and if head_dim
// is not a whole number of vectors.
template <typename Stored>
void AccumulateValues(const AttentionTile& tile, int first_key, int num_keys, const Workspace& w) {
  const Stored* values[kKeyBlock];
  tile.values.Rows(first_key, num_keys, values);
  if constexpr (!std::is_same_v<Stored, StoredFloat32>) {
    const bool whole = tile.head_dim % static_cast<int>(NumLanes()) == 0;
    if (!whole || tile.num_rows > kWideningRows) {
      const StoredFloat32* wide[kKeyBlock];
      for (int i = 0; i < num_keys; ++i) {
        float* const to = w.wide + static_cast<int64_t>(i) * tile.head_dim;
        WidenRow(values[i], tile.head_dim, to);
        wide[i] = reinterpret_cast<const StoredFloat32*>(to);
      }
      return AccumulateTile(tile, wide, first_key, w);
    }
  }
  AccumulateTile(tile, values, first_key, w);
}

// Calls body.operator()<Stored>() with the type for `dtype`.
template <typename Body>
void DispatchStored(DType dtype, Body body) {
  switch (dtype) {
    case DType::kBFloat16:
      return body.template operator()<StoredBFloat16>();
    case DType::kFloat16:
      return body.template operator()<StoredFloat16>();
    default:
      return body.template operator()<StoredFloat32>();
  }
}

// Scores of all rows. Keys stored as rows are transposed first.
void ScoreKeys(const AttentionTile& tile, int first_key, int num_keys, int padded_keys,
               const Workspace& w) {
  if (tile.keys.block_table != nullptr) {
    return DispatchStored(tile.keys.dtype, [&]<typename Stored>() {
      ScoreColumns<Stored>(tile, first_key, num_keys, padded_keys, w);
    });
  }
  const float* rows[kKeyBlock];
  const float* row = tile.keys.Row<float>(first_key);
  for (int j = 0; j < padded_keys; ++j) {
    rows[j] = row;
    if (j + 1 < num_keys) row += tile.keys.row_stride;
  }
  TransposeRows(kF32, rows, padded_keys, tile.head_dim, kKeyBlock, w.keys);
  ScoreTile(tile, WorkspaceColumns(w), padded_keys, w);
}

void ComputeBlockOfKeys(const AttentionTile& tile, int first_key, int num_keys,
                        const KeysAhead& ahead, const Workspace& w) {
  const int lanes = static_cast<int>(NumLanes());
  const int padded_keys = RoundUp(num_keys, lanes);
  FetchKeys(ahead);
  ScoreKeys(tile, first_key, num_keys, padded_keys, w);
  if (!tile.positions.empty()) AddPositions(tile, first_key, padded_keys, w);
  FetchValues(ahead);
  for (int r = 0; r < tile.num_rows; ++r) UpdateSoftmax(tile, r, first_key, padded_keys, w);
  DispatchStored(tile.values.dtype, [&]<typename Stored>() {
    AccumulateValues<Stored>(tile, first_key, num_keys, w);
  });
}

// The union of keys that a tile's rows see, rounded down to a whole block of keys.
struct SeenKeys {
  explicit SeenKeys(const AttentionTile& tile)
      : begin(tile.rows[0].first_key / kKeyBlock * kKeyBlock) {
    // Rows see keys in the order of their queries, so the first row has the lowest first_key.
    for (int r = 0; r < tile.num_rows; ++r) end = std::max(end, tile.rows[r].num_keys);
  }

  int begin;
  int end = 0;
};

// The block of keys that is read after the one at first_key.
KeysAhead Ahead(const AttentionTile& tile, const SeenKeys& keys, int first_key,
                const AttentionTile* next) {
  if (tile.keys.block_table == nullptr) return {};
  const int following = first_key + kKeyBlock;
  if (following < keys.end) return {&tile, following, std::min(kKeyBlock, keys.end - following)};
  if (next == nullptr) return {};
  const SeenKeys seen(*next);
  return {next, seen.begin, std::min(kKeyBlock, seen.end - seen.begin)};
}

void AttendTile(const AttentionTile& tile, const AttentionTile* next, Scratch& scratch) {
  const int64_t lanes = static_cast<int64_t>(NumLanes());
  const int64_t padded = RoundUp(tile.head_dim, lanes);
  const size_t keys_size = static_cast<size_t>(tile.head_dim) * kKeyBlock;
  const size_t wide_size = tile.values.dtype == DType::kFloat32 ? 0 : keys_size;
  const size_t positions_size =
      tile.positions.empty() ? 0 : static_cast<size_t>(tile.head_dim) * kDistances;
  scratch.Reset(Scratch::BytesFor<float>(keys_size) + Scratch::BytesFor<float>(wide_size) +
                2 * Scratch::BytesFor<float>(positions_size) +
                Scratch::BytesFor<float>(kTileRows * kKeyBlock) +
                Scratch::BytesFor<float>(kTileRows * padded) +
                3 * Scratch::BytesFor<float>(kTileRows));
  Workspace w;
  w.head_dim_padded = padded;
  w.keys = scratch.Take<float>(keys_size);
  w.wide = scratch.Take<float>(wide_size);
  w.position_keys = scratch.Take<float>(positions_size);
  w.position_queries = scratch.Take<float>(positions_size);
  w.scores = scratch.Take<float>(kTileRows * kKeyBlock);
  w.sums = scratch.Take<float>(kTileRows * padded);
  w.maxima = scratch.Take<float>(kTileRows);
  w.totals = scratch.Take<float>(kTileRows);
  w.decays = scratch.Take<float>(kTileRows);
  std::fill_n(w.sums, tile.num_rows * padded, 0.0f);
  std::fill_n(w.maxima, tile.num_rows, -std::numeric_limits<float>::infinity());
  std::fill_n(w.totals, tile.num_rows, 0.0f);
  const SeenKeys keys(tile);
  for (int first = keys.begin; first < keys.end; first += kKeyBlock) {
    ComputeBlockOfKeys(tile, first, std::min(kKeyBlock, keys.end - first),
                       Ahead(tile, keys, first, next), w);
  }
  for (int r = 0; r < tile.num_rows; ++r) {
    // A query without keys gets zeros.
    const VF scale = hn::Set(kF32, w.totals[r] == 0.0f ? 0.0f : 1.0f / w.totals[r]);
    const float* sums = w.sums + r * padded;
    ForEachVector(tile.head_dim, [&](size_t i, auto load, auto store) HWY_ATTR {
      store(hn::Mul(load(sums + i), scale), tile.rows[r].output + i);
    });
  }
}

}  // namespace beamline::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace beamline::cpu {
namespace {
HWY_EXPORT(AttendTile);
}  // namespace

void ComputeAttentionTile(const AttentionTile& tile, const AttentionTile* next, Scratch& scratch) {
  HWY_DYNAMIC_DISPATCH(AttendTile)(tile, next, scratch);
}

}  // namespace beamline::cpu
#endif  // HWY_ONCE
