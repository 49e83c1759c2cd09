// Attention in float16, bfloat16 and float32 over heads of every size, against the float64 twin on
// the same (rounded) inputs. What no query may see of the cache is NaN. Long because every kernel
// has its shapes here.
#include <algorithm>
#include <numeric>
#include <optional>

#include "tests/gpu/attention_inputs.h"
#include "tests/gpu/half_op_fixture.h"
#include "tests/kernels/small_cases.h"

namespace beamline::half_attention_test {
namespace {

// Some fill the vectors of the kernels, some do not.
std::vector<int> HeadDims() {
  return Cases<int>({8, 16, 24, 32, 40, 48, 64, 72, 80, 96, 112, 120, 128, 160, 192, 256},
                    {48, 128, 256});
}

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// ||actual - expected|| / ||expected||: probabilities are rounded before they meet the values, and
// the output once more.
double AttentionTolerance(DType dtype) {
  return dtype == DType::kFloat32 ? 6e-6 : dtype == DType::kFloat16 ? 1.6e-3 : 1.2e-2;
}

class HalfAttentionTest : public HalfOpTest {
 protected:
  AttentionInputs Inputs(AttentionBatch batch) {
    return AttentionInputs(backend(), dtype(), std::move(batch), random_);
  }

  // Runs into a fresh output of NaN and returns it.
  std::vector<float> Run(AttentionParams params) {
    const int64_t rows = params.query.num_rows(), cols = params.query.dim(-1);
    const TypedArray output = TypedArray::Poisoned(backend(), dtype(), rows, cols);
    params.output = output.device();
    backend().Attention(params);
    return output.Read();
  }

  void Compare(const AttentionInputs& inputs, int variant, int window = 0) {
    const AttentionBatch& batch = inputs.batch();
    SCOPED_TRACE(testing::Message()
                 << Name(dtype()) << " heads " << batch.num_heads << "/" << batch.num_kv_heads
                 << " of " << batch.head_dim << (batch.paged() ? " paged" : " packed")
                 << " queries " << testing::PrintToString(batch.query_lengths) << " contexts "
                 << testing::PrintToString(batch.context_lengths) << " variant " << variant
                 << " window " << window);
    AttentionParams params = inputs.Params(variant, /*on_host=*/false);
    AttentionParams host_params = inputs.Params(variant, /*on_host=*/true);
    params.window = host_params.window = window;
    const std::vector<float> actual = Run(params);
    const reference::Matrix expected = reference::Attention(host_params);
    ASSERT_EQ(actual.size(), expected.values.size());
    double all_errors = 0, all_norms = 0;
    for (size_t begin = 0; begin < actual.size(); begin += batch.head_dim) {
      double error = 0, norm = 0;
      for (size_t i = begin; i < begin + batch.head_dim; ++i) {
        error += (actual[i] - expected.values[i]) * (actual[i] - expected.values[i]);
        norm += expected.values[i] * expected.values[i];
      }
      // One query of one head: a NaN or a single wrong element shows. Zeros stay zeros.
      ASSERT_LE(std::sqrt(error), 5 * AttentionTolerance(dtype()) * std::sqrt(norm))
          << "token " << begin / batch.head_dim / batch.num_heads << " head "
          << begin / batch.head_dim % batch.num_heads;
      all_errors += error;
      all_norms += norm;
    }
    EXPECT_LE(std::sqrt(all_errors), AttentionTolerance(dtype()) * std::sqrt(all_norms));
  }

  // Some masks, biases and caps: none, one and all.
  void CompareVariants(AttentionBatch batch) {
    const AttentionInputs inputs = Inputs(std::move(batch));
    for (int variant : Cases<int>({kFull, kCausal, kCausal | kAlibi, kPositionBias,
                                   kCausal | kSoftcap, kCausal | kAlibi | kPositionBias | kSoftcap},
                                  {kCausal, kCausal | kAlibi | kPositionBias | kSoftcap})) {
      Compare(inputs, variant);
      if (HasFatalFailure()) return;
    }
  }
};

INSTANTIATE_TEST_SUITE_P(Types, HalfAttentionTest,
                         testing::Values(DType::kFloat32, DType::kFloat16, DType::kBFloat16),
                         DTypeName);

TEST_P(HalfAttentionTest, PackedHeadsOfEverySize) {
  for (int head_dim : HeadDims()) {
    CompareVariants({2, 2, head_dim, {1, 7, 63, 64, 65, 200}, {}});
    if (HasFatalFailure()) return;
  }
}

// Chunks of prompts with cached beginnings, a whole prompt, and a decoding sequence, by groups of
// two heads.
TEST_P(HalfAttentionTest, ChunkedPrefillOfEverySize) {
  for (int head_dim : HeadDims()) {
    CompareVariants({4, 2, head_dim, {1, 7, 63, 64, 65, 20}, {200, 64, 63, 200, 65, 333}});
    if (HasFatalFailure()) return;
  }
}

// Groups of one, four and twelve heads; blocks of a size that is no power of two.
TEST_P(HalfAttentionTest, DecodingOfEverySize) {
  for (int head_dim : HeadDims()) {
    for (const auto& [num_heads, num_kv_heads] : {std::pair(4, 4), {8, 2}, {12, 1}}) {
      CompareVariants({num_heads,
                       num_kv_heads,
                       head_dim,
                       {1, 1, 1, 1, 1, 1},
                       {1, 63, 64, 65, 200, 700},
                       num_kv_heads == 2 ? 24 : 16});
      if (HasFatalFailure()) return;
    }
  }
}

// A warp a row and head: rows that fill its blocks and rows that do not, many and few, sequences
// without keys.
TEST_P(HalfAttentionTest, ShortContextsOfEverySize) {
  for (int head_dim : HeadDims()) {
    for (const int block_size : Cases<int>({16, 24, 1, 128}, {24})) {
      AttentionBatch batch = {3, 3, head_dim, {}, {}, block_size};
      for (int context : {1, 15, 16, 17, 32, 2, 31, 0, 4, 5, 7, 12, 29}) {
        batch.query_lengths.push_back(1);
        batch.context_lengths.push_back(context);
      }
      CompareVariants(batch);
      if (HasFatalFailure()) return;
    }
  }
  AttentionBatch many = {8, 8, 64, {}, {}};
  for (int i = 0; i < 1021; ++i) {
    many.query_lengths.push_back(1);
    many.context_lengths.push_back(1 + i * 7 % 128);
  }
  CompareVariants(many);
}

// Blocks of eight warps: more than one a multiprocessor, fewer than the GPU has room for. Some
// sequences have no keys, some no queries.
TEST_P(HalfAttentionTest, MiddlingContextsOfEverySize) {
  for (int head_dim : HeadDims()) {
    AttentionBatch batch = {3, 3, head_dim, {}, {}};
    for (int i = 0; i < 67; ++i) {
      batch.query_lengths.push_back(i % 13 == 12 ? 0 : 1);
      batch.context_lengths.push_back(i % 17 == 16 ? 0 : 1 + i * 37 % 300);
    }
    CompareVariants(batch);
    Compare(Inputs(batch), kCausal, /*window=*/70);
    if (HasFatalFailure()) return;
  }
}

// As many as the GPU has room for, so that contexts of any length are read whole.
TEST_P(HalfAttentionTest, LongContextsOfManyBlocks) {
  for (int head_dim : Cases<int>({40, 64, 128}, {64})) {
    AttentionBatch batch = {5, 5, head_dim, {}, {}};
    for (int i = 0; i < 75; ++i) {
      batch.query_lengths.push_back(1);
      batch.context_lengths.push_back(i % 10 == 3 ? 900 + 17 * i : 1 + i * 13 % 200);
    }
    const AttentionInputs inputs = Inputs(batch);
    for (int variant : {int{kCausal}, kCausal | kAlibi}) {
      Compare(inputs, variant);
      if (HasFatalFailure()) return;
    }
  }
}

// Blocks of the cache that tiles of keys are made of, that are made of tiles, and others.
TEST_P(HalfAttentionTest, PromptsInBlocksOfEverySize) {
  for (int block_size : Cases<int>({1, 4, 7, 8, 24, 96, 384}, {8, 24})) {
    const AttentionInputs inputs = Inputs({4, 2, 64, {70, 200, 3}, {70, 333, 130}, block_size});
    for (int variant : {kFull, kCausal}) {
      Compare(inputs, variant);
      if (HasFatalFailure()) return;
    }
  }
}

// Windows of one key, of some, and longer than every context: prompts and their chunks, steps of
// decoding with few and thousands of keys, heads of every size and alignment.
TEST_P(HalfAttentionTest, WindowsOfEverySize) {
  for (int head_dim : Cases<int>({7, 40, 64, 128, 256}, {40})) {
    const AttentionInputs batches[] = {
        Inputs({6, 2, head_dim, {1, 7, 63, 64, 65, 1}, {200, 64, 63, 200, 65, 1}}),
        Inputs({4, 4, head_dim, {1, 1, 1, 1}, {1, 4999, 300, 33}}),
        Inputs({4, 1, head_dim, {1, 1, 1, 1}, {1, 2048, 17, 33}, 24}),
        Inputs({2, 2, head_dim, {1, 40, 150}, {}})};
    for (const AttentionInputs& inputs : batches) {
      for (int window : Cases<int>({1, 33, 64, 129, 8000}, {33})) {
        for (int variant : {0, int{kCausal}, kCausal | kAlibi}) {
          Compare(inputs, variant, window);
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

// Thousands of keys, split over blocks; groups of one to eight heads; blocks of every size.
TEST_P(HalfAttentionTest, LongContextsOfGroups) {
  for (int head_dim : Cases<int>({64, 80, 96, 128}, {80})) {
    for (const auto& [group_size, block_size] : {std::pair(1, 16), {2, 1}, {3, 7}, {8, 32}}) {
      CompareVariants({2 * group_size, 2, head_dim, {1, 1, 1, 1}, {1, 4999, 2048, 33}, block_size});
      if (HasFatalFailure()) return;
    }
  }
}

// Two to sixteen rows of one key-value head: heads that share it, and queries of one sequence. Some
// sequences have no keys, some no queries, some more queries than keys.
TEST_P(HalfAttentionTest, FewRowsShareTheirKeys) {
  struct Rows {
    int group_size, query_length, block_size;
  };
  const std::vector<Rows> all = {{2, 1, 16}, {3, 2, 16}, {7, 1, 24},  {8, 1, 16}, {1, 8, 128},
                                 {9, 1, 16}, {4, 4, 1},  {16, 1, 16}, {5, 3, 7},  {1, 16, 32}};
  for (int head_dim : HeadDims()) {
    for (const Rows& rows : Cases<Rows>(all, {{7, 1, 24}, {5, 3, 7}})) {
      CompareVariants({2 * rows.group_size,
                       2,
                       head_dim,
                       {rows.query_length, 1, rows.query_length, 0, 1, rows.query_length, 1},
                       {17, 0, 2, 31, 257, 519, 256},
                       rows.block_size});
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(HalfAttentionTest, GroupsWithoutAnyKeys) {
  CompareVariants({6, 2, 64, {1, 2, 0}, {0, 0, 0}});
}

// More keys than the most splits of the fewest keys hold.
TEST_P(HalfAttentionTest, GroupsOfVeryLongContexts) {
  const std::vector<int32_t> one = {1, 1, 1, 1};
  CompareVariants({4, 1, 64, one, {8193, 20011, 8192, 1}});
  CompareVariants({12, 1, 128, one, {8193, 9000, 0, 700}});
  CompareVariants({32, 16, 40, one, {2048, 2049, 4099, 300}});
}

// Keys that are cut finer, since all blocks of a sequence run at once.
TEST_P(HalfAttentionTest, GroupsOfASequenceAlone) {
  for (const auto& [group_size, num_kv_heads] : {std::pair(8, 8), {7, 4}, {16, 2}}) {
    for (const int context : {1, 256, 257, 300, 2047, 9001}) {
      CompareVariants({group_size * num_kv_heads, num_kv_heads, 64, {1}, {context}});
      if (HasFatalFailure()) return;
    }
  }
}

// Keys that are not the queries' own, fewer or more of them, or none.
TEST_P(HalfAttentionTest, CrossAttentionOfEverySize) {
  for (int head_dim : HeadDims()) {
    const AttentionInputs inputs = Inputs({6, 6, head_dim, {65, 1, 7, 64, 3}, {63, 200, 1, 65, 0}});
    for (int variant : {kFull, kPositionBias}) {
      Compare(inputs, variant);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(HalfAttentionTest, EveryMaskAndBias) {
  const AttentionBatch batches[] = {
      {4, 4, 64, {1, 70, 33, 2, 130, 64}, {}},
      {2, 2, 128, {5, 129, 64}, {}},
      {4, 2, 80, {9, 40}, {}},
      {4, 4, 64, {1, 1, 1, 1}, {1, 300, 64, 2000}},
      {8, 1, 128, {1, 1}, {700, 33}},
      {8, 2, 64, {2, 1, 4}, {130, 5, 900}},
      {4, 4, 64, {40, 1, 3, 65, 1}, {300, 47, 129, 65, 0}},
      {6, 2, 128, {100, 1}, {228, 513}},
      {3, 3, 40, {1, 12}, {90, 12}},
      {16, 1, 64, {130, 3}, {}},  // 2,080 rows of one key-value head: the largest tiles
      {3, 3, 20, {9, 70}, {}},    // rows of whole 16-byte parts in float32 alone
  };
  for (const AttentionBatch& batch : batches) {
    const AttentionInputs inputs = Inputs(batch);
    for (int variant = 0; variant < kNumVariants; ++variant) {
      Compare(inputs, variant);
      if (HasFatalFailure()) return;
    }
  }
}

// Scores of some hundreds, of both signs.
TEST_P(HalfAttentionTest, LargeScoresDoNotOverflow) {
  for (int query_length : {1, 200}) {
    const AttentionInputs inputs =
        Inputs({4, 4, 96, std::vector<int32_t>(4, query_length), {200, 200, 333, 200}});
    AttentionParams params = inputs.Params(kCausal, /*on_host=*/false);
    const TypedArray query = TypedArray(backend(), dtype(), params.query.num_rows(), 4 * 96,
                                        std::vector<float>(params.query.num_elements(), 60.0f));
    params.query = query.device();
    for (float value : Run(params)) ASSERT_TRUE(std::isfinite(value));
  }
}

// Queries, keys and values as columns of one matrix, unscaled, as an encoder leaves them. A
// sequence of NaN changes no bit of its neighbours.
TEST_P(HalfAttentionTest, ReadsQueriesKeysAndValuesInPlace) {
  const std::vector<int32_t> lengths = {1, 70, 33, 2, 130, 64, 500};
  for (int head_dim : Cases<int>({20, 32, 64, 80, 128, 256}, {20, 64})) {
    for (const auto& [num_heads, num_kv_heads] : {std::pair(3, 3), {4, 2}}) {
      const AttentionInputs inputs = Inputs({num_heads, num_kv_heads, head_dim, lengths, {}});
      const int64_t query_size = num_heads * head_dim, key_size = num_kv_heads * head_dim;
      const int64_t tokens = inputs.batch().num_tokens(), width = query_size + 2 * key_size;
      const TypedArray packed = Random(tokens, width);
      std::vector<float> with_nan = packed.host();
      std::fill_n(with_nan.begin() + 71 * width, 33 * width, kNan);
      const TypedArray poisoned(backend(), dtype(), tokens, width, with_nan);
      const auto params_of = [&](int variant, const Tensor& matrix, bool on_host) {
        AttentionParams params = inputs.Params(variant, on_host);
        params.query = matrix.Columns(0, query_size);
        params.key = matrix.Columns(query_size, key_size);
        params.value = matrix.Columns(query_size + key_size, key_size);
        params.scale = 1.3f / std::sqrt(static_cast<float>(head_dim));
        return params;
      };
      for (int variant : {int{kFull}, int{kCausal}, kCausal | kAlibi | kPositionBias}) {
        SCOPED_TRACE(testing::Message() << num_heads << "/" << num_kv_heads << " heads of "
                                        << head_dim << ", variant " << variant);
        const std::vector<float> actual = Run(params_of(variant, packed.device(), false));
        const reference::Matrix expected =
            reference::Attention(params_of(variant, packed.host_tensor(), true));
        double error = 0, norm = 0;
        for (size_t i = 0; i < actual.size(); ++i) {
          error += (actual[i] - expected.values[i]) * (actual[i] - expected.values[i]);
          norm += expected.values[i] * expected.values[i];
        }
        ASSERT_LE(std::sqrt(error), AttentionTolerance(dtype()) * std::sqrt(norm));
        const std::vector<float> beside_nan = Run(params_of(variant, poisoned.device(), false));
        for (int64_t i = 0; i < tokens * query_size; ++i) {
          const int64_t token = i / query_size;
          if (token >= 71 && token < 104) continue;
          ASSERT_EQ(beside_nan[i], actual[i]) << "token " << token;
        }
      }
    }
  }
}

// Columns that begin at any 16 bytes, in rows of which no head's size is a part.
TEST_P(HalfAttentionTest, ReadsRowsOfAnyStride) {
  for (int head_dim : {64, 128}) {
    const AttentionInputs inputs = Inputs({3, 3, head_dim, {70, 33, 260}, {}});
    const int64_t width = 3 * head_dim, tokens = inputs.batch().num_tokens();
    const TypedArray packed = Random(tokens, 3 * width + 40);
    const auto params_of = [&](int variant, const Tensor& matrix, bool on_host) {
      AttentionParams params = inputs.Params(variant, on_host);
      params.query = matrix.Columns(8, width);
      params.key = matrix.Columns(width + 16, width);
      params.value = matrix.Columns(2 * width + 32, width);
      return params;
    };
    for (int variant : {kFull, kCausal}) {
      const std::vector<float> actual = Run(params_of(variant, packed.device(), false));
      const reference::Matrix expected =
          reference::Attention(params_of(variant, packed.host_tensor(), true));
      double error = 0, norm = 0;
      for (size_t i = 0; i < actual.size(); ++i) {
        error += (actual[i] - expected.values[i]) * (actual[i] - expected.values[i]);
        norm += expected.values[i] * expected.values[i];
      }
      ASSERT_LE(std::sqrt(error), AttentionTolerance(dtype()) * std::sqrt(norm)) << head_dim;
    }
  }
}

// A few long sequences among many short ones, some without rows.
TEST_P(HalfAttentionTest, ManyRaggedSequences) {
  for (const auto& [num_heads, num_kv_heads] : {std::pair(2, 2), {6, 2}}) {
    for (int num_sequences : {31, 33, 70, 1100}) {
      std::vector<int32_t> lengths(num_sequences);
      for (int32_t& length : lengths) {
        length = RandomInt(0, num_sequences > 100 ? 9 : 40);
      }
      lengths[0] = 1, lengths[num_sequences / 2] = 300, lengths.back() = 129;
      const AttentionInputs packed = Inputs({num_heads, num_kv_heads, 64, lengths, {}});
      for (int variant : {int{kFull}, int{kCausal}}) Compare(packed, variant);
      if (HasFatalFailure()) return;
    }
  }
  std::vector<int32_t> lengths(40, 3), contexts(40, 70);
  lengths[7] = 100, contexts[7] = 130, contexts[11] = 3;
  Compare(Inputs({4, 2, 128, lengths, contexts}), kCausal);
}

// In float32 the kernel depends on the size of the batch.
class TensorCoreAttentionTest : public HalfAttentionTest {};
INSTANTIATE_TEST_SUITE_P(Types, TensorCoreAttentionTest,
                         testing::Values(DType::kFloat16, DType::kBFloat16), DTypeName);

// Sequences over several tiles of queries and of keys: lengths at and around multiples of 64, 128
// and 192, empty ones between, groups of heads that fill a tile's rows without a rest and groups
// that do not. Many heads make large blocks of rows. Causal queries before the first key see none.
TEST_P(TensorCoreAttentionTest, SeveralTilesOfQueriesAndKeys) {
  const std::vector<int32_t> lengths = {129, 0, 257, 1, 385, 0, 128, 192, 65};
  const std::vector<int32_t> queries = {130, 1, 300, 64, 0, 27, 150, 193, 10};
  const std::vector<int32_t> contexts = {130, 1025, 300, 640, 50, 263, 100, 0, 127};
  const auto heads =
      Cases<std::pair<int, int>>({{2, 2}, {3, 1}, {6, 1}, {16, 16}, {32, 8}}, {{3, 1}, {32, 8}});
  for (int head_dim : {64, 128}) {
    int block_size = 16;
    for (const auto& [num_heads, num_kv_heads] : heads) {
      const AttentionInputs packed = Inputs({num_heads, num_kv_heads, head_dim, lengths, {}});
      const AttentionInputs paged =
          Inputs({num_heads, num_kv_heads, head_dim, queries, contexts, block_size});
      // The twin of many heads takes seconds.
      const bool both = num_heads <= 6;
      for (int variant : {kFull, kCausal}) {
        if (both || variant == kFull) Compare(packed, variant);
        if (both || variant == kCausal) Compare(paged, variant);
        if (HasFatalFailure()) return;
      }
      block_size *= 2;  // up to two tiles of keys
    }
  }
}

// Contexts that end at every place of a block and of eight rows, in blocks of one box and of
// several tiles.
TEST_P(TensorCoreAttentionTest, ContextsEndAnywhere) {
  std::vector<int32_t> contexts;
  for (int32_t end = 1; end <= 32; ++end) contexts.push_back(end + (end % 3) * 128);
  contexts.insert(contexts.end(), {128, 255, 256, 257, 384, 511});
  const std::vector<int32_t> queries(contexts.size(), 40);
  for (int block_size : Cases<int>({8, 16, 64, 128, 256}, {16, 128})) {
    for (int head_dim : {64, 128}) {
      const AttentionInputs inputs = Inputs({4, 2, head_dim, queries, contexts, block_size});
      for (int variant : {kFull, kCausal}) Compare(inputs, variant);
      if (HasFailure()) return;
    }
  }
}

// A sequence has the bits alone that it has in a batch.
TEST_P(TensorCoreAttentionTest, PrefillDoesNotDependOnItsBatch) {
  for (int head_dim : {64, 80, 128, 256}) {
    const std::vector<int32_t> lengths = {70, 33, 130, 64};
    const AttentionInputs inputs = Inputs({4, 2, head_dim, lengths, {}});
    const AttentionParams params = inputs.Params(kCausal, /*on_host=*/false);
    const std::vector<float> all = Run(params);
    int64_t first = 0;
    for (int32_t length : lengths) {
      const IndexArray offsets(backend(), {0, length});
      AttentionParams alone = params;
      alone.num_sequences = 1, alone.max_query_length = length;
      alone.query_offsets = offsets.device();
      const auto rows = [&](const Tensor& tensor) {
        return Tensor(static_cast<char*>(tensor.data) +
                          first * tensor.row_stride * static_cast<int64_t>(SizeOf(dtype())),
                      dtype(), {length, tensor.dim(-1)});
      };
      alone.query = rows(params.query), alone.key = rows(params.key);
      alone.value = rows(params.value);
      const std::vector<float> one = Run(alone);
      const auto begin = all.begin() + first * params.query.dim(-1);
      ASSERT_TRUE(std::equal(one.begin(), one.end(), begin)) << head_dim << ", length " << length;
      first += length;
    }
  }
}

// One that decodes has them too, where it does not have the GPU to itself and its keys are cut
// finer: what is split over blocks beside longer contexts is not beside shorter ones.
TEST_P(TensorCoreAttentionTest, GroupsDoNotDependOnTheirBatch) {
  for (const auto& [head_dim, group_size] : {std::pair(64, 2), {80, 7}, {128, 8}, {256, 12}}) {
    const std::vector<int32_t> contexts = {1, 300, 5001, 9999, 64, 256};
    const AttentionInputs inputs =
        Inputs({2 * group_size, 2, head_dim, std::vector<int32_t>(contexts.size(), 1), contexts});
    const AttentionParams params = inputs.Params(kCausal | kAlibi, /*on_host=*/false);
    const std::vector<float> all = Run(params);
    const int64_t width = params.query.dim(-1);
    const IndexArray offsets(backend(), {0, 1, 2, 3});
    const auto run = [&](size_t first, int count, int max_context) {
      AttentionParams some = params;
      some.num_sequences = count, some.max_context_length = max_context;
      some.query_offsets = offsets.device();
      some.block_tables += first * params.max_blocks;
      some.context_lengths += first;
      some.query = Tensor(static_cast<char*>(params.query.data) + first * width * SizeOf(dtype()),
                          dtype(), {count, width});
      return Run(some);
    };
    for (size_t s = 0; s < contexts.size(); ++s) {
      SCOPED_TRACE(testing::Message() << head_dim << ", context " << contexts[s]);
      EXPECT_EQ(run(s, 1, contexts[s]), run(s, 1, 1 << 17));  // a loose bound
      if (s + 3 > contexts.size()) continue;
      const auto first = contexts.begin() + s;
      const std::vector<float> three = run(s, 3, *std::max_element(first, first + 3));
      ASSERT_TRUE(std::equal(three.begin(), three.end(), all.begin() + s * width));
    }
  }
}

// Recorded steps know a bound on the contexts alone. This one has sums of splits for a few
// sequences at a time.
TEST_P(TensorCoreAttentionTest, ALooseBoundOnContextsChangesNoBit) {
  AttentionBatch batch = {16, 1, 256, {}, {}};
  for (int i = 0; i < 101; ++i) {
    batch.query_lengths.push_back(i % 10 == 7 ? 0 : 1);
    batch.context_lengths.push_back(i * 37 % 600);
  }
  const AttentionInputs inputs = Inputs(batch);
  Compare(inputs, kCausal);
  AttentionParams params = inputs.Params(kCausal, /*on_host=*/false);
  const std::vector<float> tight = Run(params);
  params.max_context_length = 1 << 17;
  EXPECT_EQ(Run(params), tight);
}

}  // namespace
}  // namespace beamline::half_attention_test
