#include <algorithm>
#include <numeric>

#include "tests/kernels/op_test.h"

namespace beamline::heads_op_test {
namespace {

constexpr double kTolerance = 1e-5;  // a rotation adds two errors, each times up to 4
// One row, the most that each of a GPU's kernels for few rows takes, and one more.
constexpr int kRowCounts[] = {1, 2, 3, 8, 9, 16, 17, 23};

struct HeadsShape {
  int num_heads, num_kv_heads, head_dim;
  int hidden_size = 120;

  int query_size() const { return num_heads * head_dim; }
  int key_size() const { return num_kv_heads * head_dim; }
  int out_features() const { return query_size() + 2 * key_size(); }
};

// Angles need not be any for the arithmetic to be right.
struct RotaryShape {
  int rotary_dim = 0;  // 0: none
  bool interleaved = false;
};

// What is done to heads before they are rotated: norms of each, a norm of all, or a clip.
enum class HeadNorms { kNone, kRmsNorm, kLayerNorm, kRmsNormOfAll, kClip };

class ProjectHeadsTest : public OpTest {
 protected:
  static constexpr int kNumBlocks = 5, kBlockSize = 7, kPositions = 100;

  // Projects `num_tokens` random rows, into packed keys and values or into a cache.
  void Check(const HeadsShape& shape, int num_tokens, bool paged, const RotaryShape& rotation,
             HeadNorms norms = HeadNorms::kNone) {
    SCOPED_TRACE(testing::Message()
                 << num_tokens << " tokens, heads " << shape.num_heads << "/" << shape.num_kv_heads
                 << " of " << shape.head_dim << ", paged " << paged << ", rotary "
                 << rotation.rotary_dim << " interleaved " << rotation.interleaved);
    const Weight weight = RandomWeight(shape.out_features(), shape.hidden_size);
    const auto x = RandomArray(num_tokens * shape.hidden_size);
    const auto bias = RandomArray(shape.out_features());
    const auto query = Output(num_tokens * shape.query_size());
    const auto key = Output(num_tokens * shape.key_size());
    const auto value = Output(num_tokens * shape.key_size());
    const auto workspace = Output(num_tokens * shape.out_features());
    ProjectHeadsParams params;
    params.x = x.tensor({num_tokens, shape.hidden_size});
    params.weight = weight.packed.get();
    if (RandomInt(0, 3) != 0) params.bias = bias.tensor({shape.out_features()});
    params.num_heads = shape.num_heads;
    params.num_kv_heads = shape.num_kv_heads;
    params.head_dim = shape.head_dim;
    params.query_scale = 0.125f;
    params.workspace = workspace.tensor({num_tokens, shape.out_features()});
    if (shape.num_heads > 0) params.query = query.tensor({num_tokens, shape.query_size()});

    const auto gains = RandomArray(std::max(4 * shape.head_dim, shape.out_features()));
    SetNorms(norms, gains, params);

    const int width = std::max(2, rotation.rotary_dim);
    const auto cos_sin = RandomArray(kPositions * width);
    const auto positions = UploadIds(RandomIds(num_tokens, kPositions));
    const Rotary rotary = {.cos_sin = cos_sin.tensor({kPositions, width}),
                           .interleaved = rotation.interleaved};
    if (rotation.rotary_dim > 0) params.rotary = &rotary;
    params.positions = positions.data();

    const int cache_size = kNumBlocks * kBlockSize * shape.key_size();
    const auto keys = Upload(std::vector<float>(cache_size, 9.0f));
    const auto values = Upload(std::vector<float>(cache_size, 9.0f));
    const KvLayer cache = {
        .keys = keys.tensor({kNumBlocks, shape.num_kv_heads, kBlockSize, shape.head_dim}),
        .values = values.tensor({kNumBlocks, shape.num_kv_heads, kBlockSize, shape.head_dim}),
        .key_layout = backend().key_layout()};
    std::vector<int32_t> slots(kNumBlocks * kBlockSize);
    std::iota(slots.begin(), slots.end(), 0);
    std::shuffle(slots.begin(), slots.end(), std::mt19937(RandomInt(0, 1 << 30)));
    slots.resize(num_tokens);
    const auto device_slots = UploadIds(slots);
    if (paged) {
      params.cache = &cache;
      params.slots = device_slots.data();
    } else if (shape.num_kv_heads > 0) {
      params.key = key.tensor({num_tokens, shape.key_size()});
      params.value = value.tensor({num_tokens, shape.key_size()});
    }
    backend().ProjectHeads(params);

    const reference::HeadsResult expected = reference::ProjectHeads(params, weight.values);
    ExpectNear(query.Read(), expected.query, kTolerance);
    if (paged) {
      ExpectNear(keys.Read(), InCache(shape, slots, expected.key, cache.key_layout), kTolerance);
      ExpectNear(values.Read(), InCache(shape, slots, expected.value, KeyLayout::kRows),
                 kTolerance);
    } else {
      ExpectNear(key.Read(), expected.key, kTolerance);
      ExpectNear(value.Read(), expected.value, kTolerance);
    }
  }

 private:
  // `gains`: [4, head_dim], or of all heads.
  static void SetNorms(HeadNorms norms, const DeviceArray<float>& gains,
                       ProjectHeadsParams& params) {
    const auto vector = [&](int row) {
      return Tensor(gains.data() + row * params.head_dim, DType::kFloat32, {params.head_dim});
    };
    if (norms == HeadNorms::kNone) return;
    if (norms == HeadNorms::kClip) {
      params.clip = 0.4f;
      return;
    }
    if (norms == HeadNorms::kRmsNormOfAll) {
      const int64_t query_size = int64_t{params.num_heads} * params.head_dim;
      const int64_t key_size = int64_t{params.num_kv_heads} * params.head_dim;
      const Tensor query(gains.data(), DType::kFloat32, {query_size});
      const Tensor key(gains.data() + query_size, DType::kFloat32, {key_size});
      params.query_norm = {.kind = NormKind::kRmsNorm, .gain = query, .epsilon = 1e-3f};
      params.key_norm = {.kind = NormKind::kRmsNorm, .gain = key, .epsilon = 1e-3f};
      return;
    }
    params.query_norm = {.kind = NormKind::kRmsNorm, .gain = vector(0), .epsilon = 1e-3f};
    params.key_norm = {.kind = NormKind::kRmsNorm, .gain = vector(1), .epsilon = 1e-3f};
    if (norms == HeadNorms::kRmsNorm) return;
    for (FusedNorm* norm : {&params.query_norm, &params.key_norm}) {
      norm->kind = NormKind::kLayerNorm;
      norm->bias = vector(norm == &params.query_norm ? 2 : 3);
    }
  }

  // The whole cache, 9 where no token was stored.
  static reference::Matrix InCache(const HeadsShape& shape, const std::vector<int32_t>& slots,
                                   const reference::Matrix& packed, KeyLayout layout) {
    reference::Matrix cache(kNumBlocks * kBlockSize * shape.key_size(), 1);
    std::fill(cache.values.begin(), cache.values.end(), 9.0);
    for (size_t t = 0; t < slots.size(); ++t) {
      for (int c = 0; c < shape.key_size(); ++c) {
        const int block = slots[t] / kBlockSize;
        const int head = c / shape.head_dim;
        const int first = (block * shape.num_kv_heads + head) * kBlockSize * shape.head_dim;
        const int position = slots[t] % kBlockSize, dimension = c % shape.head_dim;
        const int element = layout == KeyLayout::kRows ? position * shape.head_dim + dimension
                                                       : dimension * kBlockSize + position;
        cache.values[first + element] = packed.at(static_cast<int64_t>(t), c);
      }
    }
    return cache;
  }
};
BEAMLINE_INSTANTIATE_OP_TEST(ProjectHeadsTest);

TEST_P(ProjectHeadsTest, PacksQueriesKeysAndValues) {
  for (int num_tokens : kRowCounts) {
    for (const HeadsShape& shape : {HeadsShape{3, 3, 40}, HeadsShape{5, 1, 80}, HeadsShape{3, 3, 5},
                                    HeadsShape{2, 2, 16, 37}}) {
      Check(shape, num_tokens, /*paged=*/false, {});
    }
  }
}

// Cross attention: a weight of queries alone, and one of keys and values alone.
TEST_P(ProjectHeadsTest, ProjectsTheTwoSidesOfCrossAttention) {
  for (int num_tokens : kRowCounts) {
    for (const HeadsShape& shape : {HeadsShape{4, 0, 16}, HeadsShape{7, 0, 40, 64}}) {
      Check(shape, num_tokens, /*paged=*/false, {});
    }
    Check({0, 2, 64}, num_tokens, /*paged=*/true, {});
    Check({0, 3, 12}, num_tokens, /*paged=*/false, {});
  }
}

TEST_P(ProjectHeadsTest, WritesTheCache) {
  for (int num_tokens : kRowCounts) {
    for (const HeadsShape& shape : {HeadsShape{6, 2, 40}, HeadsShape{3, 3, 7, 64}}) {
      Check(shape, num_tokens, /*paged=*/true, {});
    }
  }
}

// All of a head, a part of it, one pair; in a head_dim that is odd too.
TEST_P(ProjectHeadsTest, RotatesQueriesAndKeys) {
  for (int num_tokens : kRowCounts) {
    for (bool interleaved : {false, true}) {
      for (bool paged : {false, true}) {
        Check({6, 2, 40}, num_tokens, paged, {40, interleaved});
        Check({6, 2, 40}, num_tokens, paged, {24, interleaved});
        Check({3, 3, 6, 64}, num_tokens, paged, {2, interleaved});
        Check({4, 2, 9, 64}, num_tokens, paged, {6, interleaved});
        Check({5, 0, 18}, num_tokens, false, {18, interleaved});
      }
    }
  }
}

// Each head by itself, before it is rotated.
TEST_P(ProjectHeadsTest, NormsQueriesAndKeys) {
  for (int num_tokens : kRowCounts) {
    for (HeadNorms norms : {HeadNorms::kRmsNorm, HeadNorms::kLayerNorm}) {
      Check({6, 2, 40}, num_tokens, /*paged=*/true, {40, false}, norms);
      Check({3, 3, 7, 64}, num_tokens, /*paged=*/true, {6, true}, norms);
      Check({5, 1, 16}, num_tokens, /*paged=*/false, {}, norms);
    }
  }
}

TEST_P(ProjectHeadsTest, NormsOrClipsAllHeadsTogether) {
  for (int num_tokens : kRowCounts) {
    for (HeadNorms norms : {HeadNorms::kRmsNormOfAll, HeadNorms::kClip}) {
      Check({6, 2, 40}, num_tokens, /*paged=*/true, {40, false}, norms);
      Check({3, 3, 7, 64}, num_tokens, /*paged=*/true, {6, true}, norms);
      Check({5, 1, 16}, num_tokens, /*paged=*/false, {}, norms);
    }
  }
}

// More features than a GPU has warps at a time.
TEST_P(ProjectHeadsTest, ProjectsManyHeads) {
  for (int num_tokens : {1, 5}) {
    Check({40, 8, 64, 72}, num_tokens, /*paged=*/true, {});
    Check({80, 8, 64, 72}, num_tokens, /*paged=*/true, {64, false});
  }
}

}  // namespace
}  // namespace beamline::heads_op_test
