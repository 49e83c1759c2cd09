// Weights and caches that lie in memory in 16 bits while the CPU computes in float32: to the bit
// what the same numbers give in float32, with every vector extension.
#include <algorithm>
#include <limits>
#include <numeric>

#include "kernels/float16.h"
#include "tests/kernels/op_test.h"

namespace beamline::stored_types_op_test {
namespace {

class StoredTypesTest : public OpTest {
 protected:
  static constexpr DType kTypes[] = {DType::kFloat16, DType::kBFloat16};

  static uint16_t Narrow(DType dtype, float value) {
    return dtype == DType::kFloat16 ? ToFloat16(value) : ToBFloat16(value);
  }
  static float Wide(DType dtype, uint16_t bits) {
    return dtype == DType::kFloat16 ? FromFloat16(bits) : FromBFloat16(bits);
  }
  static std::vector<uint16_t> Narrow(DType dtype, const std::vector<float>& values) {
    std::vector<uint16_t> bits(values.size());
    std::ranges::transform(values, bits.begin(), [&](float value) { return Narrow(dtype, value); });
    return bits;
  }
  static std::vector<float> Rounded(DType dtype, const std::vector<float>& values) {
    std::vector<float> rounded(values.size());
    std::ranges::transform(values, rounded.begin(),
                           [&](float value) { return Wide(dtype, Narrow(dtype, value)); });
    return rounded;
  }

  // Of the tokens that were projected, one sequence in the cache's first blocks.
  std::vector<float> Attend(const ProjectHeadsParams& project, const KvLayer& cache) {
    const auto num_tokens = static_cast<int32_t>(project.query.dim(0));
    const auto num_blocks = static_cast<int32_t>(cache.keys.dim(0));
    std::vector<int32_t> blocks(num_blocks);
    std::iota(blocks.begin(), blocks.end(), 0);
    const auto offsets = UploadIds(std::vector<int32_t>{0, num_tokens});
    const auto lengths = UploadIds(std::vector<int32_t>{num_tokens});
    const auto tables = UploadIds(blocks);
    const auto output = Output(project.query.num_elements());
    AttentionParams attention;
    attention.query = project.query;
    attention.scale = 0.2f;
    attention.num_heads = project.num_heads;
    attention.num_kv_heads = project.num_kv_heads;
    attention.head_dim = project.head_dim;
    attention.num_sequences = 1;
    attention.query_offsets = offsets.data();
    attention.max_query_length = num_tokens;
    attention.cache = &cache;
    attention.block_tables = tables.data();
    attention.max_blocks = num_blocks;
    attention.context_lengths = lengths.data();
    attention.max_context_length = num_tokens;
    attention.causal = true;
    attention.output = output.tensor({num_tokens, project.query.dim(-1)});
    backend().Attention(attention);
    return output.Read();
  }
};
BEAMLINE_INSTANTIATE_OP_TEST(StoredTypesTest);

TEST_P(StoredTypesTest, WeightsMultiplyAsTheirNumbersInFloat32) {
  const struct {
    int rows, in_features, out_features;
  } shapes[] = {{1, 40, 1001}, {13, 77, 65}, {30, 1100, 96}, {3, 1, 1}};
  for (const DType dtype : kTypes) {
    for (const auto& shape : shapes) {
      SCOPED_TRACE(testing::Message() << Name(dtype) << " " << shape.rows << " x "
                                      << shape.in_features << " x " << shape.out_features);
      std::vector<float> values = RandomFloats(shape.out_features * shape.in_features, 0.1f);
      for (size_t i = 0; i < values.size(); i += 7) values[i] *= 1e-5f;  // float16's subnormals
      const std::vector<float> rounded = Rounded(dtype, values);
      const auto x = RandomArray(shape.rows * shape.in_features);
      const auto multiply = [&](const std::vector<float>& matrix, const Precision& precision) {
        const HostMatrix host = {
            .data = matrix.data(), .rows = shape.out_features, .cols = shape.in_features};
        const auto weight = backend().PackWeight({&host, 1}, precision);
        EXPECT_TRUE(weight.ok()) << weight.status();
        const auto y = Output(shape.rows * shape.out_features);
        MatMulParams params;
        params.x = x.tensor({shape.rows, shape.in_features});
        params.weight = weight->get();
        params.y = y.tensor({shape.rows, shape.out_features});
        backend().MatMul(params);
        return y.Read();
      };
      EXPECT_EQ(multiply(values, Precision(dtype, DType::kFloat32, std::nullopt)),
                multiply(rounded, DType::kFloat32));
    }
  }
}

TEST_P(StoredTypesTest, ACacheHoldsRoundedNumbersThatAttentionReads) {
  constexpr int kTokens = 70, kHeads = 4, kKvHeads = 2, kBlock = 16, kBlocks = 5;
  for (const DType dtype : kTypes) {
    for (const int head_dim : {40, 64, 7}) {
      SCOPED_TRACE(testing::Message() << Name(dtype) << ", heads of " << head_dim);
      const int query_size = kHeads * head_dim, key_size = kKvHeads * head_dim;
      const size_t cache_size = static_cast<size_t>(kBlocks) * kBlock * key_size;
      const Weight weight = RandomWeight(query_size + 2 * key_size, 24);
      const auto x = RandomArray(kTokens * 24);
      const auto query = Output(kTokens * query_size);
      const auto workspace = Output(kTokens * (query_size + 2 * key_size));
      std::vector<int32_t> slots(kTokens);
      std::iota(slots.begin(), slots.end(), 0);
      const auto slot_ids = UploadIds(slots);
      const DeviceArray<float> keys = Upload(std::vector<float>(cache_size));
      const DeviceArray<float> values = Upload(std::vector<float>(cache_size));
      const std::vector<uint16_t> zeros(cache_size);
      const DeviceArray<uint16_t> narrow_keys(backend(), zeros), narrow_values(backend(), zeros);
      const auto paged = [&](void* data, DType type) {
        return Tensor(data, type, {kBlocks, kKvHeads, kBlock, head_dim});
      };
      const KeyLayout layout = backend().key_layout();
      const KvLayer narrow = {paged(narrow_keys.data(), dtype), paged(narrow_values.data(), dtype),
                              layout};
      ProjectHeadsParams project;
      project.x = x.tensor({kTokens, 24});
      project.weight = weight.packed.get();
      project.num_heads = kHeads;
      project.num_kv_heads = kKvHeads;
      project.head_dim = head_dim;
      project.query = query.tensor({kTokens, query_size});
      project.workspace = workspace.tensor({kTokens, query_size + 2 * key_size});
      project.slots = slot_ids.data();
      const KvLayer wide = {paged(keys.data(), DType::kFloat32),
                            paged(values.data(), DType::kFloat32), layout};
      project.cache = &wide;
      backend().ProjectHeads(project);
      project.cache = &narrow;
      backend().ProjectHeads(project);
      EXPECT_EQ(narrow_keys.Read(), Narrow(dtype, keys.Read()));
      EXPECT_EQ(narrow_values.Read(), Narrow(dtype, values.Read()));

      const auto rounded_keys = Upload(Rounded(dtype, keys.Read()));
      const auto rounded_values = Upload(Rounded(dtype, values.Read()));
      const KvLayer rounded = {paged(rounded_keys.data(), DType::kFloat32),
                               paged(rounded_values.data(), DType::kFloat32), layout};
      EXPECT_EQ(Attend(project, narrow), Attend(project, rounded));
    }
  }
}

// What does not fit into float16 is infinite there and comes back as that.
TEST_P(StoredTypesTest, InfinityStaysSo) {
  constexpr int kSize = 33;
  std::vector<float> values(kSize, 1.0f);
  values[2] = 70000.0f;
  values[32] = -70000.0f;
  const HostMatrix host = {.data = values.data(), .rows = kSize, .cols = 1};
  const auto weight =
      backend().PackWeight({&host, 1}, Precision(DType::kFloat16, DType::kFloat32, std::nullopt));
  ASSERT_TRUE(weight.ok()) << weight.status();
  const auto x = Upload(std::vector<float>{1.0f});
  const auto y = Output(kSize);
  MatMulParams params;
  params.x = x.tensor({1, 1});
  params.weight = weight->get();
  params.y = y.tensor({1, kSize});
  backend().MatMul(params);
  const std::vector<float> found = y.Read();
  EXPECT_EQ(found[1], 1.0f);
  EXPECT_EQ(found[2], std::numeric_limits<float>::infinity());
  EXPECT_EQ(found[32], -std::numeric_limits<float>::infinity());
}

}  // namespace
}  // namespace beamline::stored_types_op_test
