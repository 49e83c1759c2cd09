// Keys that lie as columns in the cache: to the bit what the same keys give as packed rows, for
// blocks of any size, whatever lies beyond the filled positions, with every vector extension.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <type_traits>

#include "kernels/float16.h"
#include "tests/kernels/op_test.h"
#include "tests/sanitized.h"

namespace beamline::cached_keys_op_test {
namespace {

struct Shape {
  int num_heads, num_kv_heads, head_dim, block_size;
};

class CachedKeysTest : public OpTest {
 protected:
  static constexpr int kLength = kSanitized ? 70 : 140;

  // One sequence of kLength positions.
  struct Sequence {
    Shape shape;
    std::vector<float> query, keys, values;  // packed
  };

  Sequence RandomSequence(const Shape& shape, DType dtype) {
    Sequence sequence = {.shape = shape};
    const size_t key_size = static_cast<size_t>(shape.num_kv_heads) * shape.head_dim;
    sequence.query = RandomFloats(static_cast<size_t>(kLength) * shape.num_heads * shape.head_dim);
    sequence.keys = RandomFloats(kLength * key_size);
    sequence.values = RandomFloats(kLength * key_size);
    if (dtype == DType::kFloat32) return sequence;
    for (std::vector<float>* numbers : {&sequence.keys, &sequence.values}) {
      std::ranges::transform(*numbers, numbers->begin(),
                             [&](float value) { return Wide(dtype, Narrow(dtype, value)); });
    }
    return sequence;
  }

  // The same in a cache, NaN where no position lies.
  template <typename Element>
  DeviceArray<Element> Cached(const Sequence& sequence, const std::vector<float>& packed,
                              DType dtype, bool columns, std::span<const int32_t> table) {
    const Shape& shape = sequence.shape;
    const int64_t head_size = int64_t{shape.block_size} * shape.head_dim;
    std::vector<Element> cache(table.size() * shape.num_kv_heads * head_size,
                               Stored<Element>(dtype, std::nanf("")));
    for (int position = 0; position < kLength; ++position) {
      const int64_t block = table[position / shape.block_size];
      const int64_t offset = position % shape.block_size;
      for (int h = 0; h < shape.num_kv_heads; ++h) {
        for (int d = 0; d < shape.head_dim; ++d) {
          const int64_t element =
              columns ? d * shape.block_size + offset : offset * shape.head_dim + d;
          const int64_t from = (int64_t{position} * shape.num_kv_heads + h) * shape.head_dim + d;
          cache[(block * shape.num_kv_heads + h) * head_size + element] =
              Stored<Element>(dtype, packed[from]);
        }
      }
    }
    return DeviceArray<Element>(backend(), cache);
  }

  static uint16_t Narrow(DType dtype, float value) {
    return dtype == DType::kFloat16 ? ToFloat16(value) : ToBFloat16(value);
  }
  static float Wide(DType dtype, uint16_t bits) {
    return dtype == DType::kFloat16 ? FromFloat16(bits) : FromBFloat16(bits);
  }
  template <typename Element>
  static Element Stored(DType dtype, float value) {
    if constexpr (std::is_same_v<Element, float>) {
      return value;
    } else {
      return Narrow(dtype, value);
    }
  }

  AttentionParams Params(const Shape& shape) {
    AttentionParams params;
    params.scale = 0.3f;
    params.softcap = 2.0f;
    params.num_heads = shape.num_heads;
    params.num_kv_heads = shape.num_kv_heads;
    params.head_dim = shape.head_dim;
    params.num_sequences = 1;
    params.causal = true;
    return params;
  }

  // Of packed keys.
  std::vector<float> Expected(const Sequence& sequence) {
    const int64_t width = int64_t{sequence.shape.num_heads} * sequence.shape.head_dim;
    const int64_t key_size = int64_t{sequence.shape.num_kv_heads} * sequence.shape.head_dim;
    const auto query = Upload(sequence.query), key = Upload(sequence.keys),
               value = Upload(sequence.values), output = Output(kLength * width);
    const auto offsets = UploadIds(std::vector<int32_t>{0, kLength});
    AttentionParams params = Params(sequence.shape);
    params.query = query.tensor({kLength, width});
    params.key = key.tensor({kLength, key_size});
    params.value = value.tensor({kLength, key_size});
    params.query_offsets = offsets.data();
    params.max_query_length = kLength;
    params.output = output.tensor({kLength, width});
    backend().Attention(params);
    return output.Read();
  }

  // Of the queries from `first` to `last` - 1, of a context that ends there.
  void Check(const Sequence& sequence, const KvLayer& cache, std::span<const int32_t> table,
             const std::vector<float>& expected, int first, int last) {
    SCOPED_TRACE(testing::Message() << "queries " << first << " to " << last);
    const int64_t width = int64_t{sequence.shape.num_heads} * sequence.shape.head_dim;
    const auto part = [&](const std::vector<float>& all) {
      return std::span(all).subspan(first * width, (last - first) * width);
    };
    const auto query = Upload(part(sequence.query)), output = Output((last - first) * width);
    const auto offsets = UploadIds(std::vector<int32_t>{0, last - first});
    const auto lengths = UploadIds(std::vector<int32_t>{last});
    const auto tables = UploadIds(table);
    AttentionParams params = Params(sequence.shape);
    params.query = query.tensor({last - first, width});
    params.query_offsets = offsets.data();
    params.max_query_length = last - first;
    params.cache = &cache;
    params.block_tables = tables.data();
    params.max_blocks = static_cast<int>(table.size());
    params.context_lengths = lengths.data();
    params.max_context_length = last;
    params.output = output.tensor({last - first, width});
    backend().Attention(params);
    ExpectSameBits(output.Read(), part(expected));
  }

  template <typename Element>
  void CheckShape(const Shape& shape, DType dtype) {
    SCOPED_TRACE(testing::Message() << Name(dtype) << ", heads of " << shape.head_dim
                                    << ", blocks of " << shape.block_size);
    const Sequence sequence = RandomSequence(shape, dtype);
    const std::vector<float> expected = Expected(sequence);
    const int64_t num_blocks = (kLength - 1) / shape.block_size + 2;
    std::vector<int32_t> table(num_blocks);
    std::iota(table.begin(), table.end(), 0);
    std::shuffle(table.begin(), table.end(), std::mt19937(RandomInt(0, 1 << 30)));
    const auto keys = Cached<Element>(sequence, sequence.keys, dtype, true, table);
    const auto values = Cached<Element>(sequence, sequence.values, dtype, false, table);
    const auto paged = [&](const DeviceArray<Element>& array) {
      return Tensor(array.data(), dtype,
                    {num_blocks, shape.num_kv_heads, shape.block_size, shape.head_dim});
    };
    const KvLayer cache = {paged(keys), paged(values), KeyLayout::kColumns};
    Check(sequence, cache, table, expected, 0, kLength);
    for (const int rows : {1, 2, 5}) {
      Check(sequence, cache, table, expected, kLength - rows, kLength);
    }
    const int last = RandomInt(1, kLength);
    Check(sequence, cache, table, expected, last - 1, last);
  }
};
BEAMLINE_INSTANTIATE_OP_TEST(CachedKeysTest);

TEST_P(CachedKeysTest, BlocksOfAnySizeGiveTheBitsOfPackedKeys) {
  ASSERT_EQ(backend().key_layout(), KeyLayout::kColumns);
  for (const int block_size : {1, 3, 4, 8, 16, 24, 32, 64, 100}) {
    for (const int head_dim : {7, 64, 80}) {
      CheckShape<float>({4, 4, head_dim, block_size}, DType::kFloat32);
      CheckShape<float>({6, 2, head_dim, block_size}, DType::kFloat32);
      for (const DType dtype : {DType::kBFloat16, DType::kFloat16}) {
        CheckShape<uint16_t>({2, 2, head_dim, block_size}, dtype);
        CheckShape<uint16_t>({8, 1, head_dim, block_size}, dtype);
      }
    }
  }
}

}  // namespace
}  // namespace beamline::cached_keys_op_test
