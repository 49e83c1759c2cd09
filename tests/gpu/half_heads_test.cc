// ProjectHeads in float16, bfloat16 and float32, by one kernel (few tokens; of those and a large
// weight another) and by two (many).
#include <numeric>

#include "tests/gpu/half_op_fixture.h"
#include "tests/kernels/small_cases.h"

namespace beamline::half_heads_test {
namespace {

// ||stored - packed|| / ||packed|| over the tokens' slots; infinite when anything else was written.
double CacheError(const TypedArray& cache, const reference::Matrix& packed,
                  const std::vector<int32_t>& slots, int block_size, int head_dim) {
  const std::vector<float> stored = cache.Read();
  const auto num_kv_heads = static_cast<int>(packed.cols) / head_dim;
  std::vector<bool> expected(stored.size());
  double error = 0, norm = 0;
  for (size_t t = 0; t < slots.size(); ++t) {
    for (int64_t c = 0; c < packed.cols; ++c) {
      const int64_t row = (slots[t] / block_size * num_kv_heads + c / head_dim) * block_size +
                          slots[t] % block_size;
      const int64_t index = row * head_dim + c % head_dim;
      const double value = packed.at(static_cast<int64_t>(t), c);
      expected[index] = true;
      error += (stored[index] - value) * (stored[index] - value);
      norm += value * value;
    }
  }
  for (size_t i = 0; i < stored.size(); ++i) {
    if (!expected[i] && !std::isnan(stored[i])) return std::numeric_limits<double>::infinity();
  }
  const double relative = std::sqrt(error / norm);
  return std::isnan(relative) ? std::numeric_limits<double>::infinity() : relative;
}

// cos and sin of each position's angles, [num_positions, head_dim].
std::vector<float> Angles(int num_positions, int head_dim) {
  std::vector<float> angles(num_positions * head_dim);
  for (int p = 0; p < num_positions; ++p) {
    for (int i = 0; i < head_dim / 2; ++i) {
      const double angle = p * std::pow(10000.0, -2.0 * i / head_dim);
      angles[p * head_dim + i] = static_cast<float>(std::cos(angle));
      angles[p * head_dim + head_dim / 2 + i] = static_cast<float>(std::sin(angle));
    }
  }
  return angles;
}

// Gains of queries and keys, each head's or all heads', and a bias of keys alone.
struct HeadNorms {
  TypedArray query_gain, key_gain, key_bias;

  void Apply(NormKind kind, ProjectHeadsParams& params, ProjectHeadsParams& host) const {
    params.query_norm = {kind, query_gain.device_vector(), {}, 1e-4f};
    params.key_norm = {kind, key_gain.device_vector(), key_bias.device_vector(), 1e-4f};
    host.query_norm = {kind, query_gain.host_vector(), {}, 1e-4f};
    host.key_norm = {kind, key_gain.host_vector(), key_bias.host_vector(), 1e-4f};
  }
};

struct Shape {
  int num_heads, num_kv_heads, head_dim, hidden_size;

  // Tokens whose numbers take kernels of their own.
  std::vector<int> Tokens() const {
    if (hidden_size > 1000) return Cases<int>({1, 2, 8}, {1, 8});
    return Cases<int>({1, 2, 3, 8, 9, 16, 21}, {2, 21});
  }
};
constexpr Shape kShapes[] = {{6, 2, 64, 128},   {3, 3, 20, 128},  {0, 3, 32, 128},
                             {5, 0, 24, 128},   {48, 4, 64, 128}, {24, 6, 64, 520},
                             {10, 1, 40, 1000}, {80, 8, 88, 2080}};

// Of the small cases each shape has a third of the variants, and those of queries and keys together
// every one.
bool RunsAsSmallCase(const Shape& shape, int variant) {
  if (shape.hidden_size > 1000) return variant == 4;
  return (variant + variant / 3) % 3 == (&shape - kShapes) % 3;
}

constexpr int kBlockSize = 16, kNumBlocks = 5;

class HalfHeadsTest : public HalfOpTest {
 protected:
  // Keys, or values, as blocks of a cache.
  Tensor Pages(const TypedArray& rows, const Shape& shape) const {
    return Tensor(rows.device().data, dtype(),
                  {kNumBlocks, shape.num_kv_heads, kBlockSize, shape.head_dim});
  }
  // Of the cache, in a random order.
  std::vector<int32_t> RandomSlots(int num_tokens) {
    std::vector<int32_t> slots(kNumBlocks * kBlockSize);
    std::iota(slots.begin(), slots.end(), 0);
    std::shuffle(slots.begin(), slots.end(), random_);
    slots.resize(num_tokens);
    return slots;
  }
  // Over rows of queries, and of keys, of so many elements.
  HeadNorms RandomNorms(int query_size, int key_size) {
    return {Random(1, std::max(1, query_size)), Random(1, std::max(1, key_size)),
            Random(1, std::max(1, key_size))};
  }
};
INSTANTIATE_TEST_SUITE_P(Types, HalfHeadsTest,
                         testing::Values(DType::kFloat32, DType::kFloat16, DType::kBFloat16),
                         DTypeName);

TEST_P(HalfHeadsTest, ProjectsHeadsIntoTheCache) {
  for (const Shape& shape : kShapes) {
    const int hidden = shape.hidden_size;
    const int width = (shape.num_heads + 2 * shape.num_kv_heads) * shape.head_dim;
    const Weight weight = RandomWeight(width, hidden);
    const TypedArray bias = Random(1, width);
    const TypedArray gain = Random(1, hidden), norm_bias = Random(1, hidden);
    const HeadNorms norms = RandomNorms(shape.head_dim, shape.head_dim);
    const HeadNorms of_all =
        RandomNorms(shape.num_heads * shape.head_dim, shape.num_kv_heads * shape.head_dim);
    const TypedArray cos_sin(backend(), DType::kFloat32, 100, shape.head_dim,
                             Angles(100, shape.head_dim));
    for (int num_tokens : shape.Tokens()) {
      const TypedArray x = Random(num_tokens, hidden);
      const std::vector<int32_t> slots = RandomSlots(num_tokens);
      std::vector<int32_t> positions(num_tokens);
      for (int32_t& position : positions) position = RandomInt(0, 99);
      const IndexArray device_slots = Ids(slots), device_positions = Ids(positions);
      // Without rotary, half-split, interleaved; the same behind a norm of the input; and with a
      // norm of each head, RMSNorm or LayerNorm; with such norms of all heads; and clipped.
      for (int variant = 0; variant < 24; ++variant) {
        const bool rotated = variant % 3 > 0, behind_norm = variant % 6 >= 3;
        const bool is_cross = shape.num_heads * shape.num_kv_heads == 0;
        if (variant / 6 == 2 && is_cross) continue;
        if (SmallCases() && !RunsAsSmallCase(shape, variant)) continue;
        SCOPED_TRACE(testing::Message() << num_tokens << " tokens, " << shape.num_heads << "/"
                                        << shape.num_kv_heads << " heads, variant " << variant);
        const TypedArray query = Output(num_tokens, std::max(1, shape.num_heads * shape.head_dim));
        const TypedArray workspace = Output(num_tokens, width);
        const int cache_rows = kNumBlocks * shape.num_kv_heads * kBlockSize;
        const TypedArray keys = Output(std::max(1, cache_rows), shape.head_dim);
        const TypedArray values = Output(std::max(1, cache_rows), shape.head_dim);
        const Rotary rotary = {cos_sin.device(), variant % 3 == 2},
                     host_rotary = {cos_sin.host_tensor(), variant % 3 == 2};
        const KvLayer cache = {Pages(keys, shape), Pages(values, shape)};
        ProjectHeadsParams params;
        params.weight = weight.packed.get();
        params.num_heads = shape.num_heads, params.num_kv_heads = shape.num_kv_heads;
        params.head_dim = shape.head_dim;
        params.query_scale = 0.125f;
        ProjectHeadsParams expected = params;
        params.x = x.device(), expected.x = x.host_tensor();
        params.bias = bias.device_vector(), expected.bias = bias.host_vector();
        params.positions = device_positions.device(), expected.positions = positions.data();
        if (rotated) params.rotary = &rotary, expected.rotary = &host_rotary;
        if (variant / 6 == 1) norms.Apply(NormKind(variant % 2), params, expected);
        if (variant / 6 == 2) of_all.Apply(NormKind(variant % 2), params, expected);
        if (variant / 6 == 3) params.clip = expected.clip = 0.5f;
        const TypedArray normed = Output(num_tokens, hidden);
        if (behind_norm) {
          params.input_norm = {.gain = gain.device_vector(), .bias = norm_bias.device_vector()};
          expected.input_norm = {.gain = gain.host_vector(), .bias = norm_bias.host_vector()};
          params.normed = normed.device();
        }
        if (shape.num_heads > 0) params.query = query.device();
        params.workspace = workspace.device();
        params.cache = &cache;
        params.slots = device_slots.device();
        backend().ProjectHeads(params);
        const reference::HeadsResult result = reference::ProjectHeads(expected, weight.values);
        // Of many tokens the product is rounded before the rotation.
        const double tolerance = 2 * Tolerance(dtype());
        if (shape.num_heads > 0) ExpectClose(query, result.query, tolerance);
        if (shape.num_kv_heads == 0) continue;
        EXPECT_LE(CacheError(keys, result.key, slots, kBlockSize, shape.head_dim), tolerance);
        EXPECT_LE(CacheError(values, result.value, slots, kBlockSize, shape.head_dim), tolerance);
      }
    }
  }
}

}  // namespace
}  // namespace beamline::half_heads_test
