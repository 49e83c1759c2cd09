#include <algorithm>
#include <numeric>

#include "tests/kernels/op_test.h"

namespace beamline {
namespace {

constexpr double kTolerance = 5e-6;

struct HeadsShape {
  int num_heads, num_kv_heads, head_dim;
};

class ProjectHeadsTest : public OpTest {};
BEAMLINE_INSTANTIATE_OP_TEST(ProjectHeadsTest);

TEST_P(ProjectHeadsTest, PacksQueriesKeysAndValues) {
  for (const HeadsShape& shape :
       {HeadsShape{3, 3, 40}, HeadsShape{5, 1, 80}, HeadsShape{4, 0, 16}, HeadsShape{0, 2, 64}}) {
    const int num_tokens = 23;
    const int hidden_size = 120;
    const int out_features = (shape.num_heads + 2 * shape.num_kv_heads) * shape.head_dim;
    const int query_size = shape.num_heads * shape.head_dim;
    const int key_size = shape.num_kv_heads * shape.head_dim;
    const Weight weight = RandomWeight(out_features, hidden_size);
    const auto x = RandomArray(num_tokens * hidden_size);
    const auto bias = RandomArray(out_features);
    const auto query = Output(num_tokens * query_size);
    const auto key = Output(num_tokens * key_size);
    const auto value = Output(num_tokens * key_size);
    const auto workspace = Output(num_tokens * out_features);
    ProjectHeadsParams params;
    params.x = x.tensor({num_tokens, hidden_size});
    params.weight = weight.packed.get();
    params.bias = bias.tensor({out_features});
    params.num_heads = shape.num_heads;
    params.num_kv_heads = shape.num_kv_heads;
    params.head_dim = shape.head_dim;
    params.query_scale = 0.125f;
    if (query_size > 0) params.query = query.tensor({num_tokens, query_size});
    if (key_size > 0) {
      params.key = key.tensor({num_tokens, key_size});
      params.value = value.tensor({num_tokens, key_size});
    }
    params.workspace = workspace.tensor({num_tokens, out_features});
    backend().ProjectHeads(params);
    const reference::HeadsResult expected = reference::ProjectHeads(params, weight.values);
    ExpectNear(query.Read(), expected.query, kTolerance);
    ExpectNear(key.Read(), expected.key, kTolerance);
    ExpectNear(value.Read(), expected.value, kTolerance);
  }
}

TEST_P(ProjectHeadsTest, RotatesAndWritesTheCache) {
  const int num_tokens = 21;
  const int hidden_size = 64;
  const int num_blocks = 5;
  const int block_size = 16;
  const HeadsShape shape = {6, 2, 40};
  const int query_size = shape.num_heads * shape.head_dim;
  const int key_size = shape.num_kv_heads * shape.head_dim;
  const int out_features = query_size + 2 * key_size;
  for (bool interleaved : {false, true}) {
    const Weight weight = RandomWeight(out_features, hidden_size);
    const auto x = RandomArray(num_tokens * hidden_size);
    const auto query = Output(num_tokens * query_size);
    const auto workspace = Output(num_tokens * out_features);
    const int cache_size = num_blocks * block_size * key_size;
    const auto keys = Upload(std::vector<float>(cache_size, 9.0f));
    const auto values = Upload(std::vector<float>(cache_size, 9.0f));
    const KvLayer cache = {
        .keys = keys.tensor({num_blocks, shape.num_kv_heads, block_size, shape.head_dim}),
        .values = values.tensor({num_blocks, shape.num_kv_heads, block_size, shape.head_dim})};
    const int rotary_dim = 24;
    const auto cos_sin = RandomArray(100 * rotary_dim);
    const Rotary rotary = {.cos_sin = cos_sin.tensor({100, rotary_dim}),
                           .interleaved = interleaved};
    std::vector<int32_t> slots(num_blocks * block_size);
    std::iota(slots.begin(), slots.end(), 0);
    std::shuffle(slots.begin(), slots.end(), std::mt19937(RandomInt(0, 1 << 30)));
    const auto device_slots = UploadIds(std::span(slots).first(num_tokens));
    const auto positions = UploadIds(RandomIds(num_tokens, 100));
    ProjectHeadsParams params;
    params.x = x.tensor({num_tokens, hidden_size});
    params.weight = weight.packed.get();
    params.num_heads = shape.num_heads;
    params.num_kv_heads = shape.num_kv_heads;
    params.head_dim = shape.head_dim;
    params.query_scale = 0.3f;
    params.positions = positions.data();
    params.rotary = &rotary;
    params.query = query.tensor({num_tokens, query_size});
    params.cache = &cache;
    params.slots = device_slots.data();
    params.workspace = workspace.tensor({num_tokens, out_features});
    backend().ProjectHeads(params);

    const reference::HeadsResult expected = reference::ProjectHeads(params, weight.values);
    ExpectNear(query.Read(), expected.query, kTolerance);
    reference::Matrix expected_keys(cache_size, 1);
    reference::Matrix expected_values(cache_size, 1);
    std::fill(expected_keys.values.begin(), expected_keys.values.end(), 9.0);
    std::fill(expected_values.values.begin(), expected_values.values.end(), 9.0);
    for (int t = 0; t < num_tokens; ++t) {
      for (int c = 0; c < key_size; ++c) {
        const int block = slots[t] / block_size;
        const int head = c / shape.head_dim;
        const int index =
            ((block * shape.num_kv_heads + head) * block_size + slots[t] % block_size) *
                shape.head_dim +
            c % shape.head_dim;
        expected_keys.values[index] = expected.key.at(t, c);
        expected_values.values[index] = expected.value.at(t, c);
      }
    }
    ExpectNear(keys.Read(), expected_keys, kTolerance);
    ExpectNear(values.Read(), expected_values, kTolerance);
  }
}

}  // namespace
}  // namespace beamline
