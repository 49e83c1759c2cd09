#include "kernels/cuda/attention/attention_picker.h"

#include <algorithm>

#include "base/math.h"
#include "fmt/format.h"

namespace beamline::cuda {
namespace {

// With fewer query rows per key-value head, a 64-row tile is mostly padding. Padding costs less on
// tensor cores than in the multiply-adds of a float32 tile.
constexpr int kFewestTensorCoreRows = 9;
constexpr int kFewestFloatTileRows = 32;
// A 64-row float32 tile needs a third of the instructions of eight blocks of kRows. With less than
// one tile per this many multiprocessors, idle multiprocessors cost more than that saves.
constexpr int kMultiprocessorsPerFloatTile = 4;
// From this number of rows on, 128-row blocks pay for heads of 64 elements. Measured on an H200: 8%
// faster than 64-row blocks at 4,096 rows, 17% slower at 1,024.
constexpr int kFewestLargeRows = 2048;
// Merging splits needs a launch of its own. That takes as long as a warp takes to read this many
// keys, in four passes.
constexpr int kMostUnsplitKeysOfAWarp = 64;
// Warps of kRows that run at once on a multiprocessor.
constexpr int kRowWarpsPerMultiprocessor = 24;
// With more blocks than this per multiprocessor, blocks of eight warps read contexts of any length
// without splits. The heads must be small enough that a multiprocessor holds that many blocks.
constexpr int kFewestUnsplitBlocks = 2;
constexpr int kMostHeadDimOfUnsplitRows = 128;
// A shorter split costs more to merge than it saves.
constexpr int kFewestKeysPerSplit = 128;
constexpr int kBlocksPerMultiprocessor = 4;
// A warp reads 16 keys of 64 elements per pass. A block of kRows reads four times as many, and then
// merges. If few warps share a multiprocessor, a warp's passes wait for memory one after another.
constexpr int kMostKeysOfFewWarps = 32;
constexpr int kMostKeysOfManyWarps = 128;
constexpr int kManyWarpsPerMultiprocessor = 32;
// For blocks that have a multiprocessor each: with more warps they make fewer passes.
constexpr int kFewestKeysOfMoreWarps = 65;

// If sequences have fewer rows on average, two of three warpgroups of a large kWgmma block are
// idle.
constexpr int64_t kMostRowsOfSmallWgmma = 96;

int DivideUp(int64_t a, int64_t b) { return static_cast<int>(CeilDiv(a, b)); }

bool IsAligned(const Tensor& tensor) {
  return reinterpret_cast<uintptr_t>(tensor.data) % 16 == 0 &&
         tensor.row_stride * static_cast<int64_t>(SizeOf(tensor.dtype)) % 16 == 0;
}

bool IsAligned(const AttentionParams& p) {
  if (!IsAligned(p.query) || !IsAligned(p.output)) return false;
  if (p.cache != nullptr) return IsAligned(p.cache->keys) && IsAligned(p.cache->values);
  return IsAligned(p.key) && IsAligned(p.value);
}

const char* Name(AttentionKernel kernel) {
  switch (kernel) {
    case AttentionKernel::kMath:
      return "math";
    case AttentionKernel::kRows:
      return "rows";
    case AttentionKernel::kShortRows:
      return "short rows";
    case AttentionKernel::kGroups:
      return "grouped rows";
    case AttentionKernel::kTiles:
      return "tiles";
    case AttentionKernel::kTensorCore:
      return "tensor core";
    case AttentionKernel::kWgmma:
      return "wgmma";
    case AttentionKernel::kDisentangled:
      return "disentangled";
  }
  return "";
}

std::string Describe(const AttentionChoice& choice) {
  const int num_rows = choice.num_rows;
  switch (choice.reason) {
    case AttentionReason::kHeadDim:
      return "the others compute heads of whole 16-byte parts";
    case AttentionReason::kAlignment:
      return "an operand's rows are not 16-byte aligned";
    case AttentionReason::kFullTiles:
      return fmt::format("{} query rows for a key-value head fill a tile", num_rows);
    case AttentionReason::kFewRows:
      return fmt::format("{} query rows for a key-value head: reading the keys decides", num_rows);
    case AttentionReason::kShort:
      return fmt::format(
          "one query row for a key-value head and at most {} keys: a warp reads them",
          kMostKeysOfManyWarps);
    case AttentionReason::kFewTiles:
      return fmt::format("{} query rows for a key-value head make too few tiles for the GPU",
                         num_rows);
    case AttentionReason::kWindow:
      return "the others read all keys before a query, not those in its window";
    case AttentionReason::kPositions:
      return "queries and keys are multiplied by positions";
    case AttentionReason::kInvariant:
      return "it computes a row alike in every batch";
    case AttentionReason::kLargeHeads:
      return fmt::format("tiles compute heads of at most {} in float32", kMostFloatTileHeadDim);
  }
  return "";
}

// kFullTiles if the type's kernel for full tiles pays; otherwise the reason why not.
AttentionReason ReasonOf(const AttentionParams& p, int num_rows, int num_multiprocessors) {
  if (p.query.dtype != DType::kFloat32) {
    return num_rows < kFewestTensorCoreRows ? AttentionReason::kFewRows
                                            : AttentionReason::kFullTiles;
  }
  if (num_rows < kFewestFloatTileRows) return AttentionReason::kFewRows;
  if (p.head_dim > kMostFloatTileHeadDim) return AttentionReason::kLargeHeads;
  const int64_t num_tiles =
      int64_t{DivideUp(num_rows, kFloatTileRows)} * p.num_kv_heads * p.num_sequences;
  return num_tiles * kMultiprocessorsPerFloatTile < num_multiprocessors
             ? AttentionReason::kFewTiles
             : AttentionReason::kFullTiles;
}

// Cache blocks are copied as a whole, or in parts of a tile's size: in groups of eight rows, of
// which a tile consists. Editing scores would need registers that the kernel does not have.
bool SuitsWgmma(const AttentionParams& p) {
  if (p.head_dim != 64 && p.head_dim != 128) return false;
  if (p.alibi_slopes != nullptr || !p.position_bias.empty() || p.softcap > 0) return false;
  if (p.cache == nullptr) return true;
  const int64_t block_size = p.cache->keys.dim(2);
  return block_size % 8 == 0 && (kWgmmaKeys % block_size == 0 || block_size % kWgmmaKeys == 0);
}

// Large blocks read keys and values once for more rows. Small blocks fill more of the GPU and waste
// less on short sequences. Both compute the same bits for a row.
void PickWgmmaRows(const AttentionParams& p, int num_multiprocessors, AttentionChoice& choice) {
  choice.kernel = AttentionKernel::kWgmma;
  const int large = LargeWgmmaRows(p.head_dim);
  const int64_t rows = p.query.num_rows() * p.num_heads;
  const int64_t pairs = int64_t{p.num_sequences} * p.num_kv_heads;
  choice.num_blocks = std::max(pairs, int64_t{DivideUp(rows, large)});
  const bool fills = choice.num_blocks >= num_multiprocessors;
  const bool shorter = rows <= kMostRowsOfSmallWgmma * pairs;
  choice.rows_per_block = fills && !shorter ? large : kSmallWgmmaRows;
}

void PickTensorCore(const AttentionParams& p, int num_multiprocessors, bool has_wgmma,
                    AttentionChoice& choice) {
  if (has_wgmma && SuitsWgmma(p)) {
    PickWgmmaRows(p, num_multiprocessors, choice);
    return;
  }
  const bool large = p.head_dim == 128 ? choice.num_rows > kSmallTensorCoreRows
                                       : p.head_dim == 64 && choice.num_rows >= kFewestLargeRows;
  choice.kernel = AttentionKernel::kTensorCore;
  choice.rows_per_block = large ? kLargeTensorCoreRows : kSmallTensorCoreRows;
}

// Whether kGroups can compute the call: one block holds the rows, and the keys are in the cache.
bool FitsGroups(const AttentionParams& p, int num_rows) {
  if (p.query.dtype == DType::kFloat32 || p.cache == nullptr) return false;
  if (p.max_context_length == 0 || p.max_blocks == 0) return false;  // block tables may be missing
  const int64_t bytes = p.cache->keys.num_elements() * static_cast<int64_t>(SizeOf(p.query.dtype));
  return num_rows > 1 && num_rows <= kMoreGroupRows && bytes <= kMostGroupCacheBytes;
}

// If there are so few sequences that all blocks have a multiprocessor each, their keys are cut into
// smaller splits. This is for the kernel of few rows, which then starts early.
void PickGroups(const AttentionParams& p, int num_multiprocessors, AttentionChoice& choice) {
  choice.kernel = AttentionKernel::kGroups;
  choice.reason = AttentionReason::kFewRows;
  choice.rows_per_block = choice.num_rows <= kFewGroupRows ? kFewGroupRows : kMoreGroupRows;
  const int most = MostGroupSplits(p.num_kv_heads);
  choice.num_splits = std::clamp(DivideUp(p.max_context_length, kFewestKeysPerGroupSplit), 1, most);
  // Does not use the limit on contexts, which must not change any bit.
  if (choice.rows_per_block != kFewGroupRows) return;
  if (int64_t{most} * p.num_kv_heads * p.num_sequences > num_multiprocessors) return;
  choice.keys_per_split = kFewestKeysPerFineSplit;
  if (choice.num_splits > 1) {
    choice.num_splits = std::min(DivideUp(p.max_context_length, kFewestKeysPerFineSplit), most);
  }
}

// Few query rows per block. The keys are split if there would be too few blocks.
void PickRows(const AttentionParams& p, int num_multiprocessors, AttentionChoice& choice) {
  choice.kernel = AttentionKernel::kRows;
  choice.rows_per_block = choice.num_rows == 1 ? 1 : kMostRowsPerBlock;
  choice.num_blocks =
      int64_t{DivideUp(choice.num_rows, choice.rows_per_block)} * p.num_kv_heads * p.num_sequences;
  const int max_keys = p.cache == nullptr ? p.max_query_length : p.max_context_length;
  const bool many = choice.num_blocks >= int64_t{kManyWarpsPerMultiprocessor} * num_multiprocessors;
  if (choice.num_rows == 1 && p.max_blocks > 0 &&
      max_keys <= (many ? kMostKeysOfManyWarps : kMostKeysOfFewWarps)) {
    choice.kernel = AttentionKernel::kShortRows;
    choice.reason = AttentionReason::kShort;
    return;
  }
  if (choice.num_rows == 1) {
    if (max_keys <= kFewRowWarps * kMostUnsplitKeysOfAWarp) {
      if (choice.num_blocks <= num_multiprocessors && max_keys >= kFewestKeysOfMoreWarps) {
        choice.warps_per_block = kMoreRowWarps;
      }
      return;
    }
    // With more blocks than multiprocessors, blocks of more warps are faster, as long as all of
    // them run at once. Fewer blocks read faster in splits.
    const int64_t room = int64_t{kRowWarpsPerMultiprocessor} / kMoreRowWarps * num_multiprocessors;
    const bool most = p.head_dim <= kMostHeadDimOfUnsplitRows &&
                      choice.num_blocks > int64_t{kFewestUnsplitBlocks} * num_multiprocessors;
    if ((most || max_keys <= kMoreRowWarps * kMostUnsplitKeysOfAWarp) &&
        choice.num_blocks > num_multiprocessors && choice.num_blocks <= room) {
      choice.warps_per_block = kMoreRowWarps;
      return;
    }
  }
  const int wanted = DivideUp(int64_t{kBlocksPerMultiprocessor} * num_multiprocessors,
                              std::max<int64_t>(1, choice.num_blocks));
  choice.num_splits =
      std::clamp(std::min(wanted, DivideUp(max_keys, kFewestKeysPerSplit)), 1, kMostSplits);
}

}  // namespace

uint32_t AttentionChoice::kind() const {
  return static_cast<uint32_t>(kernel) | static_cast<uint32_t>(reason) << 4 |
         static_cast<uint32_t>(dtype) << 8 | (num_splits > 1 ? 1u << 12 : 0u) |
         static_cast<uint32_t>(rows_per_block) << 16;
}

std::string AttentionChoice::Describe() const {
  std::string text =
      fmt::format("attention in {}, heads of {}: the {} kernel, {} query rows a block: {}",
                  Name(dtype), head_dim, cuda::Name(kernel), rows_per_block, cuda::Describe(*this));
  if (num_splits > 1 && kernel == AttentionKernel::kGroups) {
    text += fmt::format("; keys in parts of {} or more", keys_per_split);
  } else if (num_splits > 1) {
    text += fmt::format("; keys in {} parts: {} blocks alone leave the GPU idle", num_splits,
                        num_blocks);
  }
  return text;
}

AttentionChoice PickAttention(const AttentionParams& p, int num_multiprocessors, bool has_wgmma) {
  AttentionChoice choice;
  choice.dtype = p.query.dtype;
  choice.head_dim = p.head_dim;
  choice.num_rows = p.max_query_length * (p.num_heads / p.num_kv_heads);
  if (!p.relative.empty()) {
    choice.reason = AttentionReason::kPositions;
    if (choice.num_rows < kFewestDisentangledRows) return choice;
    choice.kernel = AttentionKernel::kDisentangled;
    choice.rows_per_block = kDisentangledRows;
    return choice;
  }
  if (p.head_dim * SizeOf(p.query.dtype) % 16 != 0) return choice;
  if (!IsAligned(p)) {
    choice.reason = AttentionReason::kAlignment;
    return choice;
  }
  choice.reason = ReasonOf(p, choice.num_rows, num_multiprocessors);
  if (p.window > 0) {
    PickRows(p, num_multiprocessors, choice);
    choice.kernel = AttentionKernel::kRows;
    choice.reason = AttentionReason::kWindow;
  } else if (FitsGroups(p, choice.num_rows)) {
    PickGroups(p, num_multiprocessors, choice);
  } else if (choice.reason != AttentionReason::kFullTiles) {
    PickRows(p, num_multiprocessors, choice);
  } else if (p.query.dtype == DType::kFloat32) {
    choice.kernel = AttentionKernel::kTiles;
    choice.rows_per_block = kFloatTileRows;
  } else {
    PickTensorCore(p, num_multiprocessors, has_wgmma, choice);
  }
  return choice;
}

AttentionChoice PickBatchInvariantAttention(const AttentionParams& p, bool has_wgmma) {
  AttentionChoice choice;
  choice.dtype = p.query.dtype;
  choice.head_dim = p.head_dim;
  choice.num_rows = p.max_query_length * (p.num_heads / p.num_kv_heads);
  if (!p.relative.empty()) {
    choice.kernel = AttentionKernel::kDisentangled;
    choice.reason = AttentionReason::kPositions;
    choice.rows_per_block = kDisentangledRows;
    return choice;
  }
  if (p.head_dim * SizeOf(p.query.dtype) % 16 != 0) return choice;
  if (!IsAligned(p)) {
    choice.reason = AttentionReason::kAlignment;
    return choice;
  }
  choice.reason = p.window > 0 ? AttentionReason::kWindow : AttentionReason::kInvariant;
  if (p.window > 0 || p.query.dtype == DType::kFloat32) {
    // Keys are distributed over four warps in the same way for one row and for eight.
    choice.kernel = AttentionKernel::kRows;
    choice.rows_per_block = choice.num_rows == 1 ? 1 : kMostRowsPerBlock;
  } else if (has_wgmma && SuitsWgmma(p)) {
    choice.kernel = AttentionKernel::kWgmma;
    const bool many = p.max_query_length > kSmallWgmmaRows;
    choice.rows_per_block = many ? LargeWgmmaRows(p.head_dim) : kSmallWgmmaRows;
  } else {
    choice.kernel = AttentionKernel::kTensorCore;
    choice.rows_per_block = kSmallTensorCoreRows;
  }
  return choice;
}

}  // namespace beamline::cuda
