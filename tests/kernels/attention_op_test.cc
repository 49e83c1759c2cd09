#include <algorithm>
#include <numeric>

#include "base/math.h"
#include "tests/kernels/op_test.h"
#include "tests/sanitized.h"

namespace beamline::attention_op_test {
namespace {

constexpr double kTolerance = 1e-5;
constexpr int kBlockSize = 16;

struct Shape {
  int num_heads, num_kv_heads, head_dim;
};

// A ragged batch with its arrays on the device. Queries belong to the last positions of their
// contexts.
struct Batch {
  Shape shape;
  std::vector<int> query_lengths;
  std::vector<int> context_lengths;
};

class AttentionTest : public OpTest {
 protected:
  // What a run needs to outlive its parameters.
  struct Arrays {
    std::vector<DeviceArray<float>> floats;
    std::vector<DeviceArray<int32_t>> ids;
    KvLayer cache;
  };

  AttentionParams MakePaged(const Batch& batch, Arrays& arrays) {
    AttentionParams params = MakeQueries(batch, arrays);
    const int num_sequences = params.num_sequences;
    params.max_context_length =
        *std::max_element(batch.context_lengths.begin(), batch.context_lengths.end());
    params.max_blocks = CeilDiv(params.max_context_length, kBlockSize) + 1;
    const int num_blocks = num_sequences * params.max_blocks + 3;
    std::vector<int32_t> blocks(num_blocks);
    std::iota(blocks.begin(), blocks.end(), 0);
    std::shuffle(blocks.begin(), blocks.end(), std::mt19937(RandomInt(0, 1 << 30)));
    blocks.resize(num_sequences * params.max_blocks);
    const int64_t cache_size = static_cast<int64_t>(num_blocks) * kBlockSize *
                               batch.shape.num_kv_heads * batch.shape.head_dim;
    for (int i = 0; i < 2; ++i) arrays.floats.push_back(RandomArray(cache_size));
    const auto tensor = [&](const DeviceArray<float>& array) {
      return array.tensor({num_blocks, batch.shape.num_kv_heads, kBlockSize, batch.shape.head_dim});
    };
    arrays.cache = {.keys = tensor(arrays.floats.end()[-2]),
                    .values = tensor(arrays.floats.back()),
                    .key_layout = backend().key_layout()};
    params.cache = &arrays.cache;
    arrays.ids.push_back(UploadIds(blocks));
    params.block_tables = arrays.ids.back().data();
    arrays.ids.push_back(UploadIds(batch.context_lengths));
    params.context_lengths = arrays.ids.back().data();
    return params;
  }

  AttentionParams MakePacked(const Batch& batch, Arrays& arrays) {
    AttentionParams params = MakeQueries(batch, arrays);
    const int key_size = batch.shape.num_kv_heads * batch.shape.head_dim;
    const int64_t num_tokens = params.query.num_rows();
    for (Tensor* tensor : {&params.key, &params.value}) {
      arrays.floats.push_back(RandomArray(num_tokens * key_size));
      *tensor = arrays.floats.back().tensor({num_tokens, key_size});
    }
    return params;
  }

  // Runs into a fresh output and returns it.
  std::vector<float> Run(AttentionParams& params) {
    output_ = std::make_unique<DeviceArray<float>>(Output(params.query.num_elements()));
    params.output = output_->tensor({params.query.num_rows(), params.query.dim(-1)});
    backend().Attention(params);
    return output_->Read();
  }

  // One sequence's queries, all at once and in chunks of several sizes.
  void ExpectTheSameBitsInChunks(AttentionParams& params) {
    const auto length = static_cast<int>(params.query.num_rows());
    const int64_t width = params.query.dim(-1);
    const std::vector<float> all = Run(params);
    for (int chunk : {1, 7, 64, 100}) {
      for (int begin = 0; begin < length; begin += chunk) {
        const int end = std::min(length, begin + chunk);
        AttentionParams part = params;
        const auto offsets = UploadIds(std::vector<int32_t>{0, end - begin});
        const auto contexts = UploadIds(std::vector<int32_t>{end});
        part.query_offsets = offsets.data();
        part.context_lengths = contexts.data();
        part.max_query_length = end - begin;
        part.max_context_length = end;
        part.query = Tensor(params.query.row<float>(begin), DType::kFloat32, {end - begin, width});
        ExpectSameBits(Run(part), std::span(all).subspan(begin * width, (end - begin) * width));
      }
    }
  }

  void Compare(AttentionParams& params) {
    const std::vector<float> actual = Run(params);
    ExpectNear(actual, reference::Attention(params), kTolerance);
  }

 private:
  AttentionParams MakeQueries(const Batch& batch, Arrays& arrays) {
    AttentionParams params;
    params.scale = 0.8f;
    params.num_heads = batch.shape.num_heads;
    params.num_kv_heads = batch.shape.num_kv_heads;
    params.head_dim = batch.shape.head_dim;
    params.num_sequences = static_cast<int>(batch.query_lengths.size());
    params.max_query_length =
        *std::max_element(batch.query_lengths.begin(), batch.query_lengths.end());
    const std::vector<int32_t> offsets = OffsetsOf(batch.query_lengths);
    arrays.ids.push_back(UploadIds(offsets));
    params.query_offsets = arrays.ids.back().data();
    const int query_size = params.num_heads * params.head_dim;
    arrays.floats.push_back(
        RandomArray(offsets.back() * query_size, 1.5f / std::sqrt(float(params.head_dim))));
    params.query = arrays.floats.back().tensor({offsets.back(), query_size});
    return params;
  }

  std::unique_ptr<DeviceArray<float>> output_;
};
BEAMLINE_INSTANTIATE_OP_TEST(AttentionTest);

const Shape kShapes[] = {{3, 3, 40}, {5, 1, 80}, {4, 2, 64}, {1, 1, 7}, {6, 6, 16}};

TEST_P(AttentionTest, PackedMatchesReference) {
  for (const Shape& shape : kShapes) {
    for (bool causal : {false, true}) {
      Arrays arrays;
      AttentionParams params = MakePacked({shape, {1, 70, 33, 2, 130, 64}, {}}, arrays);
      params.causal = causal;
      Compare(params);
    }
  }
}

TEST_P(AttentionTest, PagedMatchesReference) {
  for (const Shape& shape : kShapes) {
    for (bool causal : {false, true}) {
      Arrays arrays;
      AttentionParams params =
          MakePaged({shape, {1, 1, 40, 3, 1, 65}, {1, 300, 47, 129, 64, 65}}, arrays);
      params.causal = causal;
      Compare(params);
    }
  }
}

TEST_P(AttentionTest, BiasesMatchReference) {
  const Shape shape = {3, 3, 40};
  const auto slopes = RandomArray(3, 0.1f);
  const auto bias = RandomArray(3 * 21);
  for (bool packed : {true, false}) {
    for (bool causal : {false, true}) {
      Arrays arrays;
      const Batch batch = {shape, {1, 70, 20}, {90, 100, 20}};
      AttentionParams params = packed ? MakePacked(batch, arrays) : MakePaged(batch, arrays);
      params.causal = causal;
      params.alibi_slopes = slopes.data();
      Compare(params);
      params.position_bias = bias.tensor({3, 21});
      Compare(params);
      params.alibi_slopes = nullptr;
      Compare(params);
    }
  }
}

// Positions beyond 256, which bfloat16 rounds.
TEST_P(AttentionTest, RoundedAlibiMatchesReference) {
  const auto slopes = RandomArray(5, 0.1f);
  for (const Shape& shape : kShapes) {
    if (shape.num_heads > 5) continue;
    for (bool packed : {true, false}) {
      Arrays arrays;
      const Batch batch = {shape, {1, 70, 1, 300}, {500, 100, 1, 300}};
      AttentionParams params = packed ? MakePacked(batch, arrays) : MakePaged(batch, arrays);
      params.causal = true;
      params.alibi_slopes = slopes.data();
      params.rounded_alibi_factor = 0.125f;
      Compare(params);
    }
  }
}

// Windows within a block of keys, across blocks, and longer than every context; before a query, and
// on both sides of it.
TEST_P(AttentionTest, WindowsMatchReference) {
  const auto slopes = RandomArray(5, 0.1f);
  for (const Shape& shape : {kShapes[1], kShapes[2], kShapes[3]}) {
    for (int window : {1, 17, 64, 70, 200}) {
      for (bool packed : {true, false}) {
        SCOPED_TRACE(testing::Message() << "window " << window << ", packed " << packed);
        Arrays arrays;
        const Batch batch = {shape, {1, 1, 40, 3, 80, 65}, {1, 190, 47, 129, 144, 65}};
        AttentionParams params = packed ? MakePacked(batch, arrays) : MakePaged(batch, arrays);
        params.window = window;
        if (shape.num_heads == 5) params.alibi_slopes = slopes.data();
        for (const bool causal : {true, false}) {
          params.causal = causal;
          Compare(params);
        }
      }
    }
  }
}

// Caps that bend most scores, and hardly any.
TEST_P(AttentionTest, SoftcapsMatchReference) {
  const auto slopes = RandomArray(5, 0.1f);
  for (const Shape& shape : kShapes) {
    for (float softcap : {0.7f, 50.0f}) {
      for (bool packed : {true, false}) {
        SCOPED_TRACE(testing::Message() << "softcap " << softcap << ", packed " << packed);
        Arrays arrays;
        const Batch batch = {shape, {1, 1, 40, 3, 80, 65}, {1, 190, 47, 129, 144, 65}};
        AttentionParams params = packed ? MakePacked(batch, arrays) : MakePaged(batch, arrays);
        params.causal = true;
        params.softcap = softcap;
        if (shape.num_heads == 5) params.alibi_slopes = slopes.data();
        if (shape.num_heads == 4) params.window = 70;
        Compare(params);
      }
    }
  }
}

// Distances that have rows of their own and longer ones, of fewer rows than distances; either
// product alone, both, and with what else is done to scores.
TEST_P(AttentionTest, RelativePositionsMatchReference) {
  for (const Shape& shape :
       {kShapes[0], kShapes[3], kShapes[4], Shape{2, 2, 64}, Shape{1, 1, 160}}) {
    for (const int max_distance : {0, 5, 40, 131}) {
      if (kSanitized && max_distance != 40) continue;
      SCOPED_TRACE(testing::Message() << shape.head_dim << " a head, " << max_distance);
      const int width = shape.num_heads * shape.head_dim;
      const int num_rows = max_distance + 2;
      const float size = 1.0f / std::sqrt(float(shape.head_dim));
      const auto keys = RandomArray(num_rows * width, size);
      const auto queries = RandomArray(num_rows * width, size);
      const auto rows = UploadIds(RandomIds(2 * max_distance + 1, num_rows));
      Arrays arrays;
      AttentionParams params = MakePacked({shape, {1, 70, 33, 2, 130, 64}, {}}, arrays);
      params.relative.rows = rows.data();
      params.relative.max_distance = max_distance;
      params.relative.keys = keys.tensor({num_rows, width});
      Compare(params);
      params.relative.queries = queries.tensor({num_rows, width});
      Compare(params);
      params.relative.keys = Tensor();
      Compare(params);
      params.causal = true;
      params.softcap = 2.0f;
      Compare(params);
    }
  }
}

// A query's result is the same alone and beside other sequences.
TEST_P(AttentionTest, RelativePositionsAreTheSameInAnyBatch) {
  const Shape shape = {3, 3, 40};
  const int width = 120, max_distance = 30, length = 75;
  const auto keys = RandomArray((max_distance + 1) * width, 0.2f);
  const auto rows = UploadIds(RandomIds(2 * max_distance + 1, max_distance + 1));
  Arrays arrays;
  AttentionParams params = MakePacked({shape, {length, 3, 130}, {}}, arrays);
  params.relative = {.keys = keys.tensor({max_distance + 1, width}),
                     .queries = keys.tensor({max_distance + 1, width}),
                     .rows = rows.data(),
                     .max_distance = max_distance};
  const std::vector<float> all = Run(params);
  params.num_sequences = 1;
  params.max_query_length = length;
  for (Tensor* tensor : {&params.query, &params.key, &params.value})
    *tensor = tensor->First(length);
  ExpectSameBits(Run(params), std::span(all).first(length * width));
}

TEST_P(AttentionTest, LargeScoresDoNotOverflow) {
  Arrays arrays;
  AttentionParams params = MakePacked({{2, 2, 32}, {100}, {}}, arrays);
  const auto query = RandomArray(100 * 64, 300.0f);
  params.query = query.tensor({100, 64});
  const std::vector<float> output = Run(params);
  for (float value : output) ASSERT_TRUE(std::isfinite(value));
}

TEST_P(AttentionTest, QueryWithoutKeysGivesZeros) {
  Arrays arrays;
  AttentionParams params = MakePaged({{2, 2, 16}, {1, 2}, {0, 9}}, arrays);
  const std::vector<float> output = Run(params);
  ExpectSameBits(std::span(output).first(32), std::vector<float>(32, 0.0f));
  ExpectNear(output, reference::Attention(params), kTolerance);
}

// Each sequence alone gives the bits that it has in the batch.
TEST_P(AttentionTest, SequencesDoNotDependOnTheirBatch) {
  for (bool packed : {true, false}) {
    Arrays arrays;
    const Batch batch = {{4, 2, 40}, {1, 70, 1, 33, 130}, {97, 70, 300, 64, 200}};
    AttentionParams params = packed ? MakePacked(batch, arrays) : MakePaged(batch, arrays);
    params.causal = true;
    const std::vector<float> all = Run(params);
    int first = 0;
    const int width = 160;
    for (size_t s = 0; s < batch.query_lengths.size(); ++s) {
      const int length = batch.query_lengths[s];
      AttentionParams alone = params;
      const auto offsets = UploadIds(std::vector<int32_t>{0, length});
      alone.query_offsets = offsets.data();
      alone.num_sequences = 1;
      alone.max_query_length = length;
      alone.query = Tensor(params.query.row<float>(first), DType::kFloat32, {length, width});
      if (packed) {
        alone.key = Tensor(params.key.row<float>(first), DType::kFloat32, {length, width / 2});
        alone.value = Tensor(params.value.row<float>(first), DType::kFloat32, {length, width / 2});
      } else {
        alone.block_tables += s * params.max_blocks;
        alone.context_lengths += s;
      }
      ExpectSameBits(Run(alone), std::span(all).subspan(first * width, length * width));
      first += length;
    }
  }
}

// A causal prefill gives the same bits in one piece and in chunks of any size.
TEST_P(AttentionTest, ChunkedPrefillGivesTheSameBits) {
  const int length = 150;
  Arrays arrays;
  AttentionParams whole = MakePaged({{3, 3, 40}, {length}, {length}}, arrays);
  whole.causal = true;
  for (int window : {0, 1, 70}) {
    whole.window = window;
    ExpectTheSameBitsInChunks(whole);
  }
}

}  // namespace
}  // namespace beamline::attention_op_test
