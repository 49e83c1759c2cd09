#include "kernels/cuda/attention_picker.h"

#include "gtest/gtest.h"

namespace beamline::cuda {
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
  EXPECT_NE(choice.reason.find("idle"), std::string::npos) << choice.reason;

  const AttentionParams many = Paged(DType::kBFloat16, 64, 12, 12, 256, 1, 4096);
  EXPECT_EQ(PickAttention(many, kMultiprocessors).num_splits, 1);
  const AttentionParams fresh = Paged(DType::kBFloat16, 64, 12, 12, 1, 1, 100);
  EXPECT_EQ(PickAttention(fresh, kMultiprocessors).num_splits, 1);
}

TEST_F(AttentionPickerTest, PrefillUsesTensorCoresInHalfPrecision) {
  for (DType dtype : {DType::kFloat16, DType::kBFloat16}) {
    const AttentionParams params = Paged(dtype, 128, 8, 8, 4, 500, 500);
    EXPECT_EQ(PickAttention(params, kMultiprocessors).kernel, AttentionKernel::kTensorCore);
  }
  const AttentionParams wide = Paged(DType::kFloat32, 128, 8, 8, 4, 500, 500);
  EXPECT_EQ(PickAttention(wide, kMultiprocessors).kernel, AttentionKernel::kRows);
  // A group of 16 query heads fills a tile with one query.
  const AttentionParams grouped = Paged(DType::kBFloat16, 128, 32, 2, 4, 1, 500);
  EXPECT_EQ(PickAttention(grouped, kMultiprocessors).kernel, AttentionKernel::kTensorCore);
}

TEST_F(AttentionPickerTest, FallsBackToMathAndSaysWhy) {
  const AttentionParams odd = Paged(DType::kBFloat16, 80, 8, 8, 4, 500, 500);
  EXPECT_EQ(PickAttention(odd, kMultiprocessors).kernel, AttentionKernel::kMath);
  EXPECT_NE(PickAttention(odd, kMultiprocessors).reason.find("80"), std::string::npos);
  AttentionParams shifted = Paged(DType::kBFloat16, 64, 8, 8, 4, 500, 500);
  shifted.query.data = memory_ + 2;
  EXPECT_EQ(PickAttention(shifted, kMultiprocessors).kernel, AttentionKernel::kMath);
}

}  // namespace
}  // namespace beamline::cuda
