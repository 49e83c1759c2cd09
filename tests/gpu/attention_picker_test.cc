#include "kernels/cuda/attention/attention_picker.h"

#include <tuple>

#include "base/math.h"
#include "gtest/gtest.h"

namespace beamline::cuda::attention_picker_test {
namespace {

constexpr int kMultiprocessors = 132;

class AttentionPickerTest : public testing::Test {
 protected:
  AttentionParams Paged(DType dtype, int head_dim, int num_heads, int num_kv_heads,
                        int num_sequences, int query_length, int context_length) {
    const int64_t width = int64_t{num_heads} * head_dim;
    AttentionParams params;
    params.num_heads = num_heads;
    params.num_kv_heads = num_kv_heads;
    params.head_dim = head_dim;
    params.num_sequences = num_sequences;
    params.max_query_length = query_length;
    params.max_context_length = context_length;
    params.max_blocks = CeilDiv(context_length, 16);
    params.query = Tensor(memory_, dtype, {num_sequences * query_length, width});
    params.output = params.query;
    cache_.keys = Tensor(memory_, dtype, {1, num_kv_heads, 16, head_dim});
    cache_.values = cache_.keys;
    params.cache = &cache_;
    return params;
  }

  alignas(256) char memory_[256] = {};  // never read: the picker looks at addresses alone
  KvLayer cache_;
};

TEST_F(AttentionPickerTest, DecodingReadsRowsAndSplitsLongContexts) {
  const AttentionParams alone = Paged(DType::kBFloat16, 64, 12, 12, 1, 1, 4096);
  const AttentionChoice choice = PickAttention(alone, kMultiprocessors);
  EXPECT_EQ(choice.kernel, AttentionKernel::kRows);
  EXPECT_EQ(choice.rows_per_block, 1);
  EXPECT_GT(choice.num_splits, 8);
  EXPECT_EQ(choice.reason, AttentionReason::kFewRows);
  EXPECT_EQ(
      choice.Describe(),
      "attention in bfloat16, heads of 64: the rows kernel, 1 query rows a block: 1 query rows "
      "for a key-value head: reading the keys decides; keys in 32 parts: 12 blocks alone leave "
      "the GPU idle");

  const AttentionParams many = Paged(DType::kBFloat16, 64, 12, 12, 256, 1, 4096);
  EXPECT_EQ(PickAttention(many, kMultiprocessors).num_splits, 1);
  const AttentionParams fresh = Paged(DType::kBFloat16, 64, 12, 12, 1, 1, 256);
  EXPECT_EQ(PickAttention(fresh, kMultiprocessors).num_splits, 1);
  const AttentionParams longer = Paged(DType::kBFloat16, 64, 12, 12, 1, 1, 257);
  EXPECT_EQ(PickAttention(longer, kMultiprocessors).num_splits, 3);
}

// Whatever would compute the batch without it.
TEST_F(AttentionPickerTest, WindowsAreForRows) {
  for (const auto& [query_length, num_kv_heads] : {std::pair(1, 12), {1, 4}, {512, 4}}) {
    AttentionParams params =
        Paged(DType::kBFloat16, 64, 12, num_kv_heads, 4, query_length, /*context_length=*/1024);
    params.causal = true;
    params.window = 100;
    const AttentionChoice choice = PickAttention(params, kMultiprocessors, /*has_wgmma=*/true);
    EXPECT_EQ(choice.kernel, AttentionKernel::kRows);
    EXPECT_EQ(choice.reason, AttentionReason::kWindow);
  }
  AttentionParams odd = Paged(DType::kBFloat16, 9, 12, 12, 1, 1, 1024);
  odd.causal = true;
  odd.window = 100;
  EXPECT_EQ(PickAttention(odd, kMultiprocessors).kernel, AttentionKernel::kMath);
}

// Few kernels multiply by positions, whatever the sizes are.
TEST_F(AttentionPickerTest, PositionsHaveKernelsOfTheirOwn) {
  const auto pick = [&](DType dtype, int head_dim, int query_length) {
    AttentionParams params = Paged(dtype, head_dim, 12, 12, 4, query_length, query_length);
    params.cache = nullptr;
    params.key = params.value = params.relative.keys = params.query;
    return PickAttention(params, kMultiprocessors, /*has_wgmma=*/true);
  };
  for (const DType dtype : {DType::kFloat32, DType::kFloat16}) {
    for (const int head_dim : {7, 64, 256}) {
      EXPECT_EQ(pick(dtype, head_dim, 9).kernel, AttentionKernel::kDisentangled);
      EXPECT_EQ(pick(dtype, head_dim, 8).kernel, AttentionKernel::kMath);
      EXPECT_EQ(pick(dtype, head_dim, 8).reason, AttentionReason::kPositions);
    }
  }
  EXPECT_EQ(pick(DType::kBFloat16, 64, 128).Describe(),
            "attention in bfloat16, heads of 64: the disentangled kernel, 64 query rows a block: "
            "queries and keys are multiplied by positions");
}

// Blocks that fill the GPU once get more warps, and then need no splits.
TEST_F(AttentionPickerTest, MoreWarpsShareTheKeysOfARow) {
  const auto pick = [&](int num_kv_heads, int num_sequences, int context) {
    return PickAttention(Paged(DType::kBFloat16, 64, 12, num_kv_heads, num_sequences, 1, context),
                         kMultiprocessors);
  };
  EXPECT_EQ(pick(12, 12, 512).warps_per_block, kMoreRowWarps);
  EXPECT_EQ(pick(12, 12, 512).num_splits, 1);
  EXPECT_EQ(pick(12, 12, 256).warps_per_block, kFewRowWarps);
  EXPECT_EQ(pick(12, 11, 256).warps_per_block, kMoreRowWarps);  // a multiprocessor each
  EXPECT_EQ(pick(12, 11, 65).warps_per_block, kMoreRowWarps);
  EXPECT_EQ(pick(12, 11, 64).warps_per_block, kFewRowWarps);
  EXPECT_EQ(pick(12, 12, 513).warps_per_block, kFewRowWarps);
  EXPECT_EQ(pick(12, 12, 513).num_splits, 4);
  EXPECT_EQ(pick(12, 22, 513).num_splits, 2);  // two blocks a multiprocessor
  EXPECT_EQ(pick(12, 23, 513).warps_per_block, kMoreRowWarps);
  EXPECT_EQ(pick(12, 33, 100000).warps_per_block, kMoreRowWarps);
  EXPECT_EQ(pick(12, 33, 100000).num_splits, 1);
  EXPECT_EQ(pick(12, 33, 512).warps_per_block, kMoreRowWarps);
  EXPECT_EQ(pick(12, 34, 512).warps_per_block, kFewRowWarps);  // two turns of blocks
  EXPECT_EQ(pick(12, 11, 512).warps_per_block, kFewRowWarps);
}

TEST_F(AttentionPickerTest, AWarpReadsAShortContext) {
  const AttentionParams alone = Paged(DType::kFloat16, 64, 8, 8, 4, 1, 32);
  EXPECT_EQ(PickAttention(alone, kMultiprocessors).kernel, AttentionKernel::kShortRows);
  EXPECT_EQ(PickAttention(alone, kMultiprocessors).Describe(),
            "attention in float16, heads of 64: the short rows kernel, 1 query rows a block: one "
            "query row for a key-value head and at most 128 keys: a warp reads them");
  const auto kernel = [&](int num_heads, int num_kv_heads, int num_sequences, int context) {
    return PickAttention(
               Paged(DType::kFloat16, 64, num_heads, num_kv_heads, num_sequences, 1, context),
               kMultiprocessors)
        .kernel;
  };
  EXPECT_EQ(kernel(8, 8, 4, 33), AttentionKernel::kRows);  // too few warps hide two passes
  EXPECT_EQ(kernel(8, 8, 256, 33), AttentionKernel::kRows);
  EXPECT_EQ(kernel(8, 8, 1024, 128), AttentionKernel::kShortRows);
  EXPECT_EQ(kernel(8, 8, 1024, 129), AttentionKernel::kRows);
  EXPECT_EQ(kernel(8, 2, 256, 32), AttentionKernel::kGroups);  // four heads share keys
  AttentionParams packed = Paged(DType::kFloat16, 64, 8, 8, 4, 1, 1);
  packed.cache = nullptr;
  packed.max_blocks = 0;
  packed.key = packed.value = packed.query;
  EXPECT_EQ(PickAttention(packed, kMultiprocessors).kernel, AttentionKernel::kRows);
}

TEST_F(AttentionPickerTest, FewRowsOfAKeyValueHeadShareABlock) {
  const AttentionParams params = Paged(DType::kBFloat16, 128, 64, 8, 32, 1, 2048);
  const AttentionChoice choice = PickAttention(params, kMultiprocessors);
  EXPECT_EQ(choice.kernel, AttentionKernel::kGroups);
  EXPECT_EQ(choice.rows_per_block, kFewGroupRows);
  EXPECT_EQ(choice.num_splits, 8);
  EXPECT_EQ(choice.Describe(),
            "attention in bfloat16, heads of 128: the grouped rows kernel, 8 query rows a block: 8 "
            "query rows for a key-value head: reading the keys decides; keys in parts of 256 or "
            "more");
  const auto pick = [&](DType dtype, int num_heads, int num_sequences, int query_length,
                        int context) {
    return PickAttention(Paged(dtype, 96, num_heads, 4, num_sequences, query_length, context),
                         kMultiprocessors);
  };
  EXPECT_EQ(pick(DType::kFloat16, 8, 1, 1, 256).num_splits, 1);
  // A sequence alone has a multiprocessor for every block.
  EXPECT_EQ(pick(DType::kFloat16, 8, 1, 1, 257).num_splits, 3);
  EXPECT_EQ(pick(DType::kFloat16, 8, 1, 1, 257).keys_per_split, kFewestKeysPerFineSplit);
  EXPECT_EQ(pick(DType::kFloat16, 8, 2, 1, 257).num_splits, 2);
  EXPECT_EQ(pick(DType::kFloat16, 8, 2, 1, 257).keys_per_split, kFewestKeysPerGroupSplit);
  EXPECT_EQ(pick(DType::kFloat16, 8, 1000, 1, 257).num_splits, 2);
  EXPECT_EQ(pick(DType::kFloat16, 8, 1, 1, 131072).num_splits, MostGroupSplits(4));
  EXPECT_EQ(pick(DType::kFloat16, 12, 1, 3, 500).rows_per_block, kMoreGroupRows);
  EXPECT_EQ(pick(DType::kFloat16, 4, 1, 16, 500).kernel, AttentionKernel::kGroups);
  EXPECT_EQ(pick(DType::kFloat16, 4, 1, 17, 500).kernel, AttentionKernel::kTensorCore);
  EXPECT_EQ(pick(DType::kFloat16, 4, 1, 1, 500).kernel, AttentionKernel::kRows);
  EXPECT_EQ(pick(DType::kFloat32, 8, 1, 1, 500).kernel, AttentionKernel::kRows);
  AttentionParams without_keys = Paged(DType::kFloat16, 64, 8, 4, 4, 1, 0);
  EXPECT_EQ(PickAttention(without_keys, kMultiprocessors).kernel, AttentionKernel::kRows);
  AttentionParams packed = Paged(DType::kFloat16, 64, 8, 8, 4, 2, 2);
  packed.cache = nullptr;
  packed.max_blocks = 0;
  packed.key = packed.value = packed.query;
  EXPECT_EQ(PickAttention(packed, kMultiprocessors).kernel, AttentionKernel::kRows);
}

TEST_F(AttentionPickerTest, PrefillUsesTensorCoresInHalfPrecision) {
  for (DType dtype : {DType::kFloat16, DType::kBFloat16}) {
    const AttentionParams params = Paged(dtype, 128, 8, 8, 4, 500, 500);
    EXPECT_EQ(PickAttention(params, kMultiprocessors).kernel, AttentionKernel::kTensorCore);
  }
  // A group of 17 query heads fills a tile with one query.
  const AttentionParams grouped = Paged(DType::kBFloat16, 128, 34, 2, 4, 1, 500);
  EXPECT_EQ(PickAttention(grouped, kMultiprocessors).kernel, AttentionKernel::kTensorCore);
}

TEST_F(AttentionPickerTest, PrefillUsesWgmmaWhereItRuns) {
  const auto kernel = [&](const AttentionParams& params, bool has_wgmma = true) {
    return PickAttention(params, kMultiprocessors, has_wgmma).kernel;
  };
  for (DType dtype : {DType::kFloat16, DType::kBFloat16}) {
    for (int head_dim : {64, 128}) {
      const AttentionParams params = Paged(dtype, head_dim, 8, 2, 4, 500, 700);
      EXPECT_EQ(kernel(params), AttentionKernel::kWgmma);
      EXPECT_EQ(kernel(params, false), AttentionKernel::kTensorCore);
      const AttentionParams decoding = Paged(dtype, head_dim, 8, 2, 4, 1, 700);
      EXPECT_EQ(kernel(decoding), AttentionKernel::kGroups);
    }
    EXPECT_EQ(kernel(Paged(dtype, 96, 8, 2, 4, 500, 700)), AttentionKernel::kTensorCore);
  }
  EXPECT_EQ(kernel(Paged(DType::kFloat32, 64, 8, 2, 4, 500, 700)), AttentionKernel::kTiles);
  EXPECT_EQ(
      PickAttention(Paged(DType::kFloat16, 64, 12, 12, 8, 500, 500), kMultiprocessors, true)
          .Describe(),
      "attention in float16, heads of 64: the wgmma kernel, 192 query rows a block: 500 query "
      "rows for a key-value head fill a tile");
}

TEST_F(AttentionPickerTest, WgmmaTakesFewRowsABlockOfFewOrShortSequences) {
  const auto rows = [&](int head_dim, int num_heads, int num_sequences, int length) {
    const AttentionParams params =
        Paged(DType::kFloat16, head_dim, num_heads, 4, num_sequences, length, length);
    return PickAttention(params, kMultiprocessors, /*has_wgmma=*/true).rows_per_block;
  };
  EXPECT_EQ(rows(64, 12, 8, 500), 192);
  EXPECT_EQ(rows(64, 12, 1, 1024), kSmallWgmmaRows);  // 64 blocks
  EXPECT_EQ(rows(64, 12, 1, 2112), 192);              // as many as multiprocessors
  EXPECT_EQ(rows(64, 12, 1, 2096), kSmallWgmmaRows);
  EXPECT_EQ(rows(64, 4, 256, 96), kSmallWgmmaRows);  // half of a large block
  EXPECT_EQ(rows(64, 4, 256, 97), 192);
  EXPECT_EQ(rows(64, 12, 256, 33), 192);  // of three heads each
  EXPECT_EQ(rows(128, 32, 1, 2048), 128);
  EXPECT_EQ(rows(128, 32, 1, 500), kSmallWgmmaRows);
}

TEST_F(AttentionPickerTest, WgmmaTakesNoBiasesAndNoBlocksThatTilesAreNotMadeOf) {
  const auto kernel = [&](const AttentionParams& params) {
    return PickAttention(params, kMultiprocessors, /*has_wgmma=*/true).kernel;
  };
  AttentionParams params = Paged(DType::kFloat16, 64, 8, 8, 4, 500, 500);
  const float slopes[8] = {};
  params.alibi_slopes = slopes;
  EXPECT_EQ(kernel(params), AttentionKernel::kTensorCore);
  params.alibi_slopes = nullptr;
  params.position_bias = Tensor(memory_, DType::kFloat32, {8, 3});
  EXPECT_EQ(kernel(params), AttentionKernel::kTensorCore);
  params.position_bias = Tensor();
  for (int block_size : {8, 16, 32, 64, 128, 256, 384}) {
    cache_.keys = cache_.values = Tensor(memory_, DType::kFloat16, {1, 8, block_size, 64});
    EXPECT_EQ(kernel(params), AttentionKernel::kWgmma) << block_size;
  }
  for (int block_size : {1, 4, 7, 24, 48, 96, 192}) {
    cache_.keys = cache_.values = Tensor(memory_, DType::kFloat16, {1, 8, block_size, 64});
    EXPECT_EQ(kernel(params), AttentionKernel::kTensorCore) << block_size;
  }
}

TEST_F(AttentionPickerTest, HeadsOfWhole16ByteParts) {
  for (int head_dim : {8, 16, 24, 32, 40, 48, 64, 72, 80, 96, 112, 120, 128, 160, 192, 256}) {
    const AttentionParams prefill = Paged(DType::kFloat16, head_dim, 8, 8, 4, 500, 500);
    const AttentionChoice choice = PickAttention(prefill, kMultiprocessors);
    EXPECT_EQ(choice.kernel, AttentionKernel::kTensorCore) << head_dim;
    EXPECT_EQ(choice.rows_per_block, head_dim == 128 ? kLargeTensorCoreRows : kSmallTensorCoreRows);
    const AttentionParams decode = Paged(DType::kFloat16, head_dim, 8, 8, 4, 1, 500);
    EXPECT_EQ(PickAttention(decode, kMultiprocessors).kernel, AttentionKernel::kRows) << head_dim;
  }
  // Two and a half parts in float16, five in float32.
  const AttentionParams odd = Paged(DType::kFloat16, 20, 8, 8, 4, 1, 500);
  EXPECT_EQ(PickAttention(odd, kMultiprocessors).kernel, AttentionKernel::kMath);
  const AttentionParams even = Paged(DType::kFloat32, 20, 8, 8, 4, 1, 500);
  EXPECT_EQ(PickAttention(even, kMultiprocessors).kernel, AttentionKernel::kRows);
}

TEST_F(AttentionPickerTest, Float32PrefillUsesTiles) {
  const AttentionParams prompts = Paged(DType::kFloat32, 64, 12, 12, 8, 100, 100);
  const AttentionChoice choice = PickAttention(prompts, kMultiprocessors);
  EXPECT_EQ(choice.kernel, AttentionKernel::kTiles);
  EXPECT_EQ(choice.rows_per_block, kFloatTileRows);
  EXPECT_EQ(choice.Describe(),
            "attention in float32, heads of 64: the tiles kernel, 64 query rows a block: 100 query "
            "rows for a key-value head fill a tile");
  const auto reason_for_rows = [&](int head_dim, int num_sequences, int query_length) {
    const AttentionChoice other =
        PickAttention(Paged(DType::kFloat32, head_dim, 12, 12, num_sequences, query_length, 100),
                      kMultiprocessors);
    EXPECT_EQ(other.kernel, AttentionKernel::kRows);
    EXPECT_EQ(other.rows_per_block, kMostRowsPerBlock);
    return other.reason;
  };
  EXPECT_EQ(reason_for_rows(64, 8, 31), AttentionReason::kFewRows);
  EXPECT_EQ(reason_for_rows(64, 1, 100), AttentionReason::kFewTiles);  // 24 of them
  EXPECT_EQ(reason_for_rows(136, 8, 100), AttentionReason::kLargeHeads);
}

TEST_F(AttentionPickerTest, FallsBackToMathAndSaysWhy) {
  const AttentionParams odd = Paged(DType::kBFloat16, 36, 8, 8, 4, 500, 500);
  EXPECT_EQ(PickAttention(odd, kMultiprocessors).kernel, AttentionKernel::kMath);
  EXPECT_EQ(PickAttention(odd, kMultiprocessors).Describe(),
            "attention in bfloat16, heads of 36: the math kernel, 1 query rows a block: the others "
            "compute heads of whole 16-byte parts");
  AttentionParams shifted = Paged(DType::kBFloat16, 64, 8, 8, 4, 500, 500);
  shifted.query.data = memory_ + 2;
  EXPECT_EQ(PickAttention(shifted, kMultiprocessors).kernel, AttentionKernel::kMath);
  EXPECT_EQ(PickAttention(shifted, kMultiprocessors).reason, AttentionReason::kAlignment);
}

TEST_F(AttentionPickerTest, ChoicesOfAKindDifferInNumbersAlone) {
  const auto kind = [](const AttentionParams& params) {
    return PickAttention(params, kMultiprocessors).kind();
  };
  const uint32_t split = kind(Paged(DType::kBFloat16, 64, 12, 12, 1, 1, 4096));
  EXPECT_EQ(kind(Paged(DType::kBFloat16, 64, 12, 12, 2, 1, 2048)), split);
  EXPECT_NE(kind(Paged(DType::kFloat16, 64, 12, 12, 1, 1, 4096)), split);
  EXPECT_NE(kind(Paged(DType::kBFloat16, 64, 12, 12, 1, 2, 4096)), split);
  EXPECT_NE(kind(Paged(DType::kBFloat16, 64, 12, 12, 1, 1, 100)), split);
  EXPECT_NE(kind(Paged(DType::kBFloat16, 64, 12, 12, 1, 500, 500)), split);
}

// However many sequences there are and however long they are: what would compute a row otherwise.
TEST_F(AttentionPickerTest, ABatchInvariantChoiceIsTheModels) {
  for (const DType dtype : {DType::kFloat32, DType::kFloat16, DType::kBFloat16}) {
    for (const auto& [head_dim, num_kv_heads, window] :
         {std::tuple(64, 12, 0), {128, 4, 0}, {80, 12, 0}, {7, 12, 0}, {64, 4, 33}}) {
      for (const bool has_wgmma : {false, true}) {
        const auto pick = [&](int num_sequences, int query_length, int context_length) {
          AttentionParams params =
              Paged(dtype, head_dim, 12, num_kv_heads, num_sequences, query_length, context_length);
          params.window = window;
          return PickBatchInvariantAttention(params, has_wgmma);
        };
        const AttentionKernel kernel = pick(1, 1, 1).kernel;
        for (const int num_sequences : {1, 3, 256}) {
          for (const int query_length : {1, 2, 9, 64, 500}) {
            const AttentionChoice choice = pick(num_sequences, query_length, 4096);
            EXPECT_EQ(choice.kernel, kernel) << choice.Describe();
            EXPECT_EQ(choice.num_splits, 1);
            EXPECT_EQ(choice.warps_per_block, kFewRowWarps);
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace beamline::cuda::attention_picker_test
