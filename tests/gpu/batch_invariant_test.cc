// A batch-invariant backend: a row's bits are the same alone and in any batch, however its sequence
// is cut into steps, with whatever rows and masks stand beside it.
#include <algorithm>
#include <string>
#include <vector>

#include "tests/gpu/attention_inputs.h"
#include "tests/gpu/half_op_fixture.h"
#include "tests/kernels/small_cases.h"

namespace beamline::batch_invariant_test {
namespace {

// On a backend of its own.
class HalfBatchInvariantTest : public HalfOpTest {
 protected:
  static void SetUpTestSuite() {
    HalfOpTest::SetUpTestSuite();
    ASSERT_NE(backend_, nullptr);
    ASSERT_TRUE(backend_->MakeBatchInvariant().ok());
  }

  // Some cuts of so many rows, each [begin, end).
  std::vector<std::pair<int64_t, int64_t>> Cuts(int64_t num_rows) {
    std::vector<std::pair<int64_t, int64_t>> cuts;
    for (const int64_t size : {1, 2, 5, 8, 16, 17, 64, 100, 257}) {
      if (size > num_rows) continue;
      const int64_t begin = RandomInt(0, static_cast<int>(num_rows - size));
      cuts.emplace_back(begin, begin + size);
    }
    return cuts;
  }

  // `actual` has rows begin and on of `all`, both of `columns`.
  void ExpectSameRows(const std::vector<float>& actual, const std::vector<float>& all,
                      int64_t begin, int64_t columns) {
    const int64_t offset = begin * columns;
    int64_t differ = 0;
    for (size_t i = 0; i < actual.size(); ++i) {
      ASSERT_FALSE(std::isnan(actual[i])) << i;
      differ += actual[i] == all[offset + static_cast<int64_t>(i)] ? 0 : 1;
    }
    EXPECT_EQ(differ, 0) << "of " << actual.size() << " elements";
  }
};

INSTANTIATE_TEST_SUITE_P(Types, HalfBatchInvariantTest,
                         testing::Values(DType::kFloat32, DType::kFloat16, DType::kBFloat16),
                         DTypeName);

TEST_P(HalfBatchInvariantTest, Products) {
  struct Shape {
    int64_t rows, in_features, half;
  };
  const std::vector<Shape> all = {{300, 768, 384},   {300, 768, 1536}, {300, 3072, 384},
                                  {1000, 512, 1024}, {70, 512, 15001}, {300, 72, 25},
                                  {64, 4096, 2048}};
  for (const Shape& shape : Cases(all, {all[0], all[5]})) {
    const Weight weight = RandomWeight(2 * shape.half, shape.in_features);
    const TypedArray x = Random(shape.rows, shape.in_features);
    const TypedArray bias = Random(1, 2 * shape.half), gain = Random(1, shape.in_features);
    for (const int variant : Cases<int>({0, 1, 2, 3, 4, 5}, {0, 3})) {
      SCOPED_TRACE(testing::Message()
                   << Name(dtype()) << " " << shape.rows << "x" << shape.in_features << "x"
                   << 2 * shape.half << " variant " << variant);
      const bool gated = variant == 3;
      const int64_t columns = gated ? shape.half : 2 * shape.half;
      const TypedArray residual = Random(shape.rows, columns);
      const auto run = [&](int64_t begin, int64_t end) {
        const TypedArray y = TypedArray::Poisoned(backend(), dtype(), end - begin, columns);
        const TypedArray normed =
            TypedArray::Poisoned(backend(), dtype(), end - begin, shape.in_features);
        MatMulParams params;
        params.weight = weight.packed.get();
        params.x = x.device().Rows(begin, end - begin);
        params.gated = gated;
        if (variant == 1) params.activation = Activation::kGelu;
        if (variant == 3) params.activation = Activation::kSilu;
        if (variant == 4) params.activation = Activation::kGeluTanh;
        if (variant >= 1) params.bias = bias.device_vector();
        if (variant == 2) params.residual = residual.device().Rows(begin, end - begin);
        if (variant == 5) {
          params.input_norm = {.kind = NormKind::kRmsNorm, .gain = gain.device_vector()};
          params.normed = normed.device();
        }
        params.y = y.device();
        backend().MatMul(params);
        return y.Read();
      };
      const std::vector<float> whole = run(0, shape.rows);
      for (const auto& [begin, end] : Cuts(shape.rows)) {
        SCOPED_TRACE(testing::Message() << "rows " << begin << " to " << end);
        ExpectSameRows(run(begin, end), whole, begin, columns);
      }
    }
  }
}

TEST_P(HalfBatchInvariantTest, Norms) {
  constexpr int64_t kRows = 4000;
  for (const int64_t columns : {64, 500, 768, 4096}) {
    SCOPED_TRACE(columns);
    const TypedArray x = Random(kRows, columns), residual = Random(kRows, columns);
    const TypedArray gain = Random(1, columns), bias = Random(1, columns);
    const auto run = [&](int64_t begin, int64_t end) {
      const TypedArray y = TypedArray::Poisoned(backend(), dtype(), end - begin, columns);
      backend().Norm({.kind = NormKind::kLayerNorm,
                      .x = x.device().Rows(begin, end - begin),
                      .residual = residual.device().Rows(begin, end - begin),
                      .gain = gain.device_vector(),
                      .bias = bias.device_vector(),
                      .epsilon = 1e-5f,
                      .y = y.device()});
      return y.Read();
    };
    const std::vector<float> whole = run(0, kRows);
    for (const auto& [begin, end] : Cuts(kRows)) {
      ExpectSameRows(run(begin, end), whole, begin, columns);
    }
  }
}

// Sequences of prompts, chunks and single tokens together, and each alone: whole, its last rows in
// pieces, its last row by itself.
TEST_P(HalfBatchInvariantTest, Attention) {
  struct Heads {
    int num_heads, num_kv_heads, head_dim;
  };
  for (const Heads& heads :
       {Heads{12, 12, 64}, {8, 2, 128}, {6, 2, 64}, {4, 4, 80}, {3, 3, 40}, {2, 1, 7}}) {
    for (const int variant : {int{kCausal}, kCausal | kAlibi, kCausal | kSoftcap}) {
      for (const int window : {0, 65}) {
        SCOPED_TRACE(testing::Message()
                     << Name(dtype()) << " heads " << heads.num_heads << "/" << heads.num_kv_heads
                     << " of " << heads.head_dim << " variant " << variant << " window " << window);
        const AttentionInputs inputs(backend(), dtype(),
                                     {heads.num_heads,
                                      heads.num_kv_heads,
                                      heads.head_dim,
                                      {1, 200, 1, 65, 7, 150, 1},
                                      {700, 200, 1, 65, 130, 333, 64}},
                                     random_);
        AttentionParams all = inputs.Params(variant, /*on_host=*/false);
        all.window = window;
        const int64_t columns = all.query.dim(-1);
        const auto run = [&](AttentionParams params) {
          const TypedArray output =
              TypedArray::Poisoned(backend(), dtype(), params.query.num_rows(), columns);
          params.output = output.device();
          backend().Attention(params);
          return output.Read();
        };
        const std::vector<float> together = run(all);
        int first = 0;
        for (int s = 0; s < all.num_sequences; ++s) {
          const int length = inputs.batch().query_lengths[s];
          const int context = inputs.batch().context_lengths[s];
          for (const int piece : {length, 64, 7, 1}) {
            if (piece > length) continue;
            // The last `piece` rows, and as many before the last one.
            for (const int end : {length, length - 1}) {
              if (end < piece) continue;
              SCOPED_TRACE(testing::Message() << "sequence " << s << " piece " << piece);
              const IndexArray offsets(backend(), {0, piece});
              const IndexArray contexts(backend(), {context - length + end});
              AttentionParams part = all;
              part.num_sequences = 1;
              part.max_query_length = piece;
              part.max_context_length = context - length + end;
              part.query = all.query.Rows(first + end - piece, piece);
              part.query_offsets = offsets.device();
              part.context_lengths = contexts.device();
              part.block_tables = all.block_tables + s * all.max_blocks;
              ExpectSameRows(run(part), together, first + end - piece, columns);
            }
          }
          first += length;
        }
      }
    }
  }
}

}  // namespace
}  // namespace beamline::batch_invariant_test
