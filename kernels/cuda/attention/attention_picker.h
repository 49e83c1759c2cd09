// Which attention kernel computes a batch, and why. Pure: no device is asked.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "kernels/backend.h"

namespace beamline::cuda {

enum class AttentionKernel : uint8_t {
  kMath,        // attention_math.cu: a warp per query and stretch of keys, any shape
  kRows,        // attention_rows.cu: few query rows a block, 16-byte accesses, split over the keys
  kShortRows,   // attention_short.cu: one query row a sequence, a warp for all of its keys
  kGroups,      // attention_grouped.cu: 2 to 16 query rows, keys of the cache, float16 and bfloat16
  kTiles,       // attention_tiles.cu: blocks of 64 query rows, float32
  kTensorCore,  // attention_tensor_core.cu: blocks of 64 or 128 query rows, float16 and bfloat16
  kWgmma,  // attention_wgmma.cu: the same on Hopper, heads of 64 and 128 without biases and caps
  kDisentangled  // attention_disentangled.cu: blocks of 64 query rows that meet positions
};

enum class AttentionReason : uint8_t {
  kHeadDim,     // the others compute heads of whole 16-byte parts
  kAlignment,   // an operand's rows are not 16-byte aligned
  kFullTiles,   // the query rows fill a tile's
  kFewRows,     // they do not: most time goes to reading the keys
  kShort,       // one row each, of contexts that a warp reads at once
  kFewTiles,    // they do, but the tiles are too few to fill the GPU
  kLargeHeads,  // they do, but heads of this size do not fit a float32 tile
  kWindow,      // the others read all keys before a query
  kPositions,   // the others have no products with positions, but for kMath of a few rows
  kInvariant    // of those that compute a row alike in every batch the fastest for most
};

// kGroups cuts the keys of a sequence into parts of this many, or of more where that would make
// more parts than MostGroupSplits: by the sequence's own number of keys.
inline constexpr int kFewestKeysPerGroupSplit = 256;
// Of more keys than that, where so few sequences are computed that all blocks run at once.
inline constexpr int kFewestKeysPerFineSplit = 128;

struct AttentionChoice {
  AttentionKernel kernel = AttentionKernel::kMath;
  AttentionReason reason = AttentionReason::kHeadDim;
  int rows_per_block = 1;
  int warps_per_block = 4;                        // of kRows, which divide the keys among them
  int keys_per_split = kFewestKeysPerGroupSplit;  // of kGroups, at least
  int num_splits = 1;  // parts that a sequence's keys are cut into, by blocks of their own
  // What the choice was made from.
  DType dtype = DType::kFloat32;
  int head_dim = 0;
  int num_rows = 0;        // query rows of the longest sequence for a key-value head
  int64_t num_blocks = 0;  // without splits; 0: not asked

  // Equal for choices that differ only in their numbers of rows, blocks and splits.
  uint32_t kind() const;
  // "attention in bfloat16, heads of 64: the rows kernel, ...", for a log.
  std::string Describe() const;
};

inline constexpr int kMostRowsPerBlock = 8;  // of kRows, which takes 1 or this many
inline constexpr int kMostSplits = 64;
// Warps of a block of kRows; more than the fewest for one row alone.
inline constexpr int kFewRowWarps = 4;
inline constexpr int kMoreRowWarps = 8;
// Query rows of a block of kGroups.
inline constexpr int kFewGroupRows = 8;
inline constexpr int kMoreGroupRows = 16;
// So many that one sequence fills a GPU, as few as that allows: each is written and read again.
constexpr int MostGroupSplits(int num_kv_heads) { return std::clamp(128 / num_kv_heads, 8, 32); }
// kGroups numbers the 16-byte parts of the cache's keys with 32 bits.
inline constexpr int64_t kMostGroupCacheBytes = int64_t{16} << 32;
inline constexpr int kDisentangledRows = 64;
// Of fewer rows most of such a block would wait: kMath has a block for each.
inline constexpr int kFewestDisentangledRows = 9;
inline constexpr int kFloatTileRows = 64;
inline constexpr int kMostFloatTileHeadDim = 128;
inline constexpr int kSmallTensorCoreRows = 64;
inline constexpr int kLargeTensorCoreRows = 128;
// Query rows of a block of kWgmma: few, or many by the size of its heads.
inline constexpr int kSmallWgmmaRows = 64;
constexpr int LargeWgmmaRows(int head_dim) { return head_dim == 64 ? 192 : 128; }
// Keys that a block of kWgmma reads at a time.
inline constexpr int kWgmmaKeys = 128;

// has_wgmma: kernels for sm_90a may be launched (Device::has_wgmma).
AttentionChoice PickAttention(const AttentionParams& params, int num_multiprocessors,
                              bool has_wgmma = false);

// The kernel of a batch whose rows must have the same bits in any other: by types, head sizes and
// the model's kind of attention, whatever the sequences' number and lengths. Keys are not split.
AttentionChoice PickBatchInvariantAttention(const AttentionParams& params, bool has_wgmma);

}  // namespace beamline::cuda
