// Chooses the attention kernel of a batch, with the reason. Pure: does not use a device.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "kernels/backend.h"

namespace beamline::cuda {

enum class AttentionKernel : uint8_t {
  kMath,        // attention_math.cu: a block per query and head, any shape
  kRows,        // attention_rows.cu: few query rows per block, 16-byte accesses, splits of the keys
  kShortRows,   // attention_short.cu: one query row per sequence, one warp for all of its keys
  kGroups,      // attention_grouped.cu: 2 to 16 query rows, keys in the cache, float16 and bfloat16
  kTiles,       // attention_tiles.cu: blocks of 64 query rows, float32
  kTensorCore,  // attention_tensor_core.cu: blocks of 64 or 128 query rows, float16 and bfloat16
  kWgmma,  // attention_wgmma.cu: the same on Hopper, heads of 64 and 128 without biases and caps
  kDisentangled  // attention_disentangled.cu: blocks of 64 query rows, with position terms
};

enum class AttentionReason : uint8_t {
  kHeadDim,     // the others compute heads of whole 16-byte parts
  kAlignment,   // an operand's rows are not 16-byte aligned
  kFullTiles,   // the query rows fill a tile
  kFewRows,     // they do not fill a tile: most time goes to reading the keys
  kShort,       // one query row each, and contexts that a warp reads at once
  kFewTiles,    // they fill tiles, but the tiles are too few to fill the GPU
  kLargeHeads,  // they fill tiles, but float32 tiles do not hold heads of this size
  kWindow,      // the others read all keys before a query
  kPositions,   // the others have no position terms, except kMath for a few rows
  kInvariant    // the fastest for most batches, among those that compute a row alike in every batch
};

// kGroups cuts the keys of a sequence into parts of this many keys. It uses larger parts if there
// were more than MostGroupSplits. This depends only on the sequence's own number of keys.
inline constexpr int kFewestKeysPerGroupSplit = 256;
// For longer contexts than that, if there are so few sequences that all blocks run at once.
inline constexpr int kFewestKeysPerFineSplit = 128;

struct AttentionChoice {
  AttentionKernel kernel = AttentionKernel::kMath;
  AttentionReason reason = AttentionReason::kHeadDim;
  int rows_per_block = 1;
  int warps_per_block = 4;                        // of kRows; they share the keys
  int keys_per_split = kFewestKeysPerGroupSplit;  // of kGroups; the minimum
  int num_splits = 1;  // parts of a sequence's keys, each with its own blocks
  // Inputs of the choice.
  DType dtype = DType::kFloat32;
  int head_dim = 0;
  int num_rows = 0;        // query rows of the longest sequence per key-value head
  int64_t num_blocks = 0;  // without splits; 0: not computed

  // Equal for choices that differ only in num_rows, num_blocks and the number of splits above one.
  uint32_t kind() const;
  // "attention in bfloat16, heads of 64: the rows kernel, ...", for a log.
  std::string Describe() const;
};

inline constexpr int kMostRowsPerBlock = 8;  // of kRows; the alternative is 1
inline constexpr int kMostSplits = 64;
// Warps of a block of kRows. kMoreRowWarps is for blocks of one row.
inline constexpr int kFewRowWarps = 4;
inline constexpr int kMoreRowWarps = 8;
// Query rows of a block of kGroups.
inline constexpr int kFewGroupRows = 8;
inline constexpr int kMoreGroupRows = 16;
// Enough splits that one sequence fills a GPU, and no more, because each is written and read again.
constexpr int MostGroupSplits(int num_kv_heads) { return std::clamp(128 / num_kv_heads, 8, 32); }
// kGroups counts the 16-byte parts of the cache's keys in 32 bits.
inline constexpr int64_t kMostGroupCacheBytes = int64_t{16} << 32;
inline constexpr int kDisentangledRows = 64;
// With fewer rows, most of such a block would be idle. kMath has a block per row.
inline constexpr int kFewestDisentangledRows = 9;
inline constexpr int kFloatTileRows = 64;
inline constexpr int kMostFloatTileHeadDim = 128;
inline constexpr int kSmallTensorCoreRows = 64;
inline constexpr int kLargeTensorCoreRows = 128;
// Query rows of a kWgmma block: few, or many, which depends on head_dim.
inline constexpr int kSmallWgmmaRows = 64;
constexpr int LargeWgmmaRows(int head_dim) { return head_dim == 64 ? 192 : 128; }
// Keys that a kWgmma block reads at a time.
inline constexpr int kWgmmaKeys = 128;

// has_wgmma: kernels for sm_90a can be launched (Device::has_wgmma).
AttentionChoice PickAttention(const AttentionParams& params, int num_multiprocessors,
                              bool has_wgmma = false);

// The kernel for a batch whose rows must have the same bits in any other batch. It depends on
// types, head sizes and the model's kind of attention, not on the number and lengths of the
// sequences. Keys are not split.
AttentionChoice PickBatchInvariantAttention(const AttentionParams& params, bool has_wgmma);

}  // namespace beamline::cuda
