// Attention with the product behind it in one kernel, with every tile, against the float64 twin.
#include "kernels/cuda/products/attended_product.h"

#include <functional>

#include "tests/gpu/cuda_fixture.h"
#include "tests/gpu/random_weight.h"
#include "tests/kernels/small_cases.h"

namespace beamline::attended_product_test {
namespace {

using cuda::ClusterTiles;

constexpr int kHeadDim = 64;

struct Shape {
  int rows, heads, kv_heads, out_features;

  int width() const { return heads * kHeadDim; }
  int key_width() const { return kv_heads * kHeadDim; }
  int all_columns() const { return width() + 2 * key_width(); }
};

class AttendedProductTest : public HopperTypedTest {
 protected:
  double Tolerance() const { return dtype() == DType::kFloat16 ? 1.5e-3 : 1.2e-2; }
  static std::vector<ClusterTiles> AllTiles() {
    std::vector<ClusterTiles> all;
    for (const int rows : {32, 64}) {
      for (const int split : {1, 2, 4, 8}) all.push_back({rows, split});
    }
    return Cases(all, {{32, 8}, {64, 2}, {64, 1}});
  }
  static reference::Matrix AsMatrix(const TypedArray& array) {
    reference::Matrix matrix(array.device().dim(0), array.device().dim(1));
    const std::vector<float> values = array.Read();
    std::copy(values.begin(), values.end(), matrix.values.begin());
    return matrix;
  }
  // An array that nothing wrote is NaN throughout.
  void ExpectNear(const TypedArray& array, const reference::Matrix& expected) const {
    if (std::isnan(expected.values.front())) {
      for (const float value : array.Read()) ASSERT_TRUE(std::isnan(value));
    } else {
      EXPECT_LE(array.RelativeError(expected), Tolerance());
    }
  }
  // Of queries, keys and values beside each other, as a product leaves them.
  static AttentionParams Attention(const Shape& shape, const Tensor& heads,
                                   const IndexArray& offsets, const Tensor& output) {
    AttentionParams params;
    params.query = heads.Columns(0, shape.width());
    params.key = heads.Columns(shape.width(), shape.key_width());
    params.value = heads.Columns(shape.width() + shape.key_width(), shape.key_width());
    params.scale = 0.2f;
    params.num_heads = shape.heads;
    params.num_kv_heads = shape.kv_heads;
    params.head_dim = kHeadDim;
    params.num_sequences = 1;
    params.query_offsets = offsets.device();
    params.max_query_length = shape.rows;
    params.output = output;
    return params;
  }
  static reference::Matrix Attend(const Shape& shape, const StridedMatrix& heads, double scale) {
    reference::Matrix result(shape.rows, shape.width());
    std::vector<double> weights(shape.rows);
    for (int h = 0; h < shape.heads; ++h) {
      const int query = h * kHeadDim;
      const int key = shape.width() + h / (shape.heads / shape.kv_heads) * kHeadDim;
      const int value = key + shape.key_width();
      for (int r = 0; r < shape.rows; ++r) {
        double total = 0;
        for (int k = 0; k < shape.rows; ++k) {
          double score = 0;
          for (int d = 0; d < kHeadDim; ++d) score += heads.at(r, query + d) * heads.at(k, key + d);
          total += weights[k] = std::exp(score * scale);
        }
        for (int d = 0; d < kHeadDim; ++d) {
          double sum = 0;
          for (int k = 0; k < shape.rows; ++k) sum += weights[k] * heads.at(k, value + d);
          result.at(r, query + d) = sum / total;
        }
      }
    }
    return result;
  }
};
INSTANTIATE_TEST_SUITE_P(Types, AttendedProductTest,
                         testing::Values(DType::kFloat16, DType::kBFloat16), DTypeName);

TEST_P(AttendedProductTest, EveryShapeAndTile) {
  std::vector<Shape> all = {{32, 12, 12, 768}, {17, 3, 3, 66},  {128, 8, 8, 130},  {1, 1, 1, 8},
                            {127, 5, 1, 63},   {64, 6, 3, 200}, {33, 16, 16, 1024}};
  for (int i = 0; i < 4; ++i) {
    const int kv_heads = RandomInt(1, 4);
    all.push_back({RandomInt(1, 128), kv_heads * RandomInt(1, 3), kv_heads, RandomInt(1, 300)});
  }
  int round = 0, num_computed = 0;
  for (const Shape& shape : Cases(all, {all[1], all[4]})) {
    const RandomWeight weight =
        MakeRandomWeight(backend(), dtype(), shape.out_features, shape.width(), random());
    const StridedMatrix heads =
        RandomMatrix(dtype(), shape.rows, shape.all_columns(), shape.all_columns() + 8);
    const StridedMatrix residual = RandomMatrix(dtype(), shape.rows, shape.out_features,
                                                shape.out_features + shape.out_features % 2);
    const TypedArray bias =
        TypedArray::Random(backend(), dtype(), 1, shape.out_features, 1.0f, random());
    const TypedArray attended = TypedArray::Poisoned(backend(), dtype(), shape.rows, shape.width());
    const IndexArray offsets(backend(), {0, shape.rows});
    const AttentionParams attention = Attention(shape, heads.tensor(), offsets, attended.device());
    ASSERT_TRUE(cuda::MayBeAttended(device(), attention));
    const reference::Matrix rows = Attend(shape, heads, 0.2);
    for (const ClusterTiles& tiles : AllTiles()) {
      const bool biased = round % 2 == 0, adds = round % 3 != 0;
      ++round;
      SCOPED_TRACE(testing::Message()
                   << shape.rows << " rows, " << shape.heads << "/" << shape.kv_heads << " heads, "
                   << shape.out_features << " features, tiles " << tiles.rows << "/" << tiles.split
                   << (biased ? ", bias" : "") << (adds ? ", residual" : ""));
      const reference::Matrix expected =
          ExpectedProduct(shape.rows, rows, weight, biased ? &bias : nullptr, Activation::kNone,
                          adds ? &residual : nullptr);
      const StridedMatrix y = Poisoned(dtype(), shape.rows, shape.out_features, residual.stride());
      MatMulParams params;
      params.x = attended.device();
      params.weight = weight.packed.get();
      if (biased) params.bias = bias.device_vector();
      params.y = y.tensor();
      if (adds) params.residual = residual.tensor();
      if (!cuda::AttendedProduct(device(), attention, params, tiles))
        continue;  // more than a block holds
      ++num_computed;
      EXPECT_LE(y.RelativeError(expected), Tolerance());
      EXPECT_LE(attended.RelativeError(rows), Tolerance());
      attended.Upload();
    }
  }
  EXPECT_GE(num_computed, SmallCases() ? 4 : 40);
}

// In a chain, where a kernel copies its weights while the one before it runs, results are those of
// each kernel by itself, bit by bit.
TEST_P(AttendedProductTest, AChainGivesTheSameBits) {
  const int layers = 12;
  const Shape shape = {SmallCases() ? 40 : 128, 8, 8, 3 * 8 * kHeadDim};
  std::vector<RandomWeight> weights;
  for (int i = 0; i < layers; ++i) {
    weights.push_back(
        MakeRandomWeight(backend(), dtype(), shape.out_features, shape.width(), random()));
  }
  const TypedArray start =
      TypedArray::Random(backend(), dtype(), shape.rows, shape.all_columns(), 1.0f, random());
  const TypedArray attended = TypedArray::Poisoned(backend(), dtype(), shape.rows, shape.width());
  const IndexArray offsets(backend(), {0, shape.rows});
  std::vector<TypedArray> hidden;
  for (int i = 0; i < layers; ++i) {
    hidden.push_back(TypedArray::Poisoned(backend(), dtype(), shape.rows, shape.out_features));
  }
  const auto run = [&](const ClusterTiles& tiles, bool in_turn) {
    for (const TypedArray& array : hidden) array.Upload();
    for (int i = 0; i < layers; ++i) {
      const Tensor heads = i == 0 ? start.device() : hidden[i - 1].device();
      const AttentionParams attention = Attention(shape, heads, offsets, attended.device());
      MatMulParams params;
      params.x = attended.device();
      params.weight = weights[i].packed.get();
      params.residual = heads;
      params.y = hidden[i].device();
      EXPECT_TRUE(cuda::AttendedProduct(device(), attention, params, tiles));
      if (in_turn) {
        EXPECT_TRUE(backend().Synchronize().ok());
      }
    }
    return hidden.back().Read();
  };
  for (const ClusterTiles& tiles : std::vector<ClusterTiles>{{32, 4}, {64, 4}, {32, 8}}) {
    const std::vector<float> in_turn = run(tiles, true);
    for (const float value : in_turn) ASSERT_FALSE(std::isnan(value));
    for (int round = 0; round < (SmallCases() ? 1 : 20); ++round) {
      ASSERT_EQ(run(tiles, false), in_turn) << tiles.rows << "/" << tiles.split;
    }
  }
}

// What is not a number stays in its query's row.
TEST_P(AttendedProductTest, AQueryThatIsNotANumberStaysAlone) {
  const Shape shape = {70, 4, 4, 256};
  const int broken = RandomInt(0, shape.rows - 1);
  const RandomWeight weight =
      MakeRandomWeight(backend(), dtype(), shape.out_features, shape.width(), random());
  std::vector<float> values = Normal(int64_t{shape.rows} * shape.all_columns());
  std::fill_n(values.begin() + int64_t{broken} * shape.all_columns(), shape.width(),
              std::numeric_limits<float>::quiet_NaN());
  const TypedArray heads(backend(), dtype(), shape.rows, shape.all_columns(), values);
  const TypedArray attended = TypedArray::Poisoned(backend(), dtype(), shape.rows, shape.width());
  const IndexArray offsets(backend(), {0, shape.rows});
  const AttentionParams attention = Attention(shape, heads.device(), offsets, attended.device());
  for (const ClusterTiles& tiles : AllTiles()) {
    const TypedArray y = TypedArray::Poisoned(backend(), dtype(), shape.rows, shape.out_features);
    MatMulParams params;
    params.x = attended.device();
    params.weight = weight.packed.get();
    params.y = y.device();
    ASSERT_TRUE(cuda::AttendedProduct(device(), attention, params, tiles));
    const std::vector<float> actual = y.Read();
    for (size_t i = 0; i < actual.size(); ++i) {
      ASSERT_EQ(std::isnan(actual[i]), static_cast<int>(i) / shape.out_features == broken)
          << "element " << i;
    }
  }
}

// What a replay's work calls behind an attention does not change what any of it computes.
TEST_P(AttendedProductTest, AReplayGivesWhatCallsGive) {
  // One kernel for few rows, two for more.
  const int num_rows = RandomInt(0, 1) == 0 ? RandomInt(17, 32) : RandomInt(33, 128);
  const Shape shape = {num_rows, 6, 6, 384};
  const RandomWeight weight =
      MakeRandomWeight(backend(), dtype(), shape.out_features, shape.width(), random());
  const TypedArray heads =
      TypedArray::Random(backend(), dtype(), shape.rows, shape.all_columns(), 1.0f, random());
  const TypedArray attended = TypedArray::Poisoned(backend(), dtype(), shape.rows, shape.width());
  const TypedArray y = TypedArray::Poisoned(backend(), dtype(), shape.rows, shape.out_features);
  const IndexArray offsets(backend(), {0, shape.rows});
  const TypedArray gain = TypedArray::Random(backend(), dtype(), 1, shape.width(), 1.0f, random());
  const auto attend = [&] {
    backend().Attention(Attention(shape, heads.device(), offsets, attended.device()));
  };
  const auto multiply = [&] {
    MatMulParams params;
    params.x = attended.device();
    params.weight = weight.packed.get();
    params.y = y.device();
    backend().MatMul(params);
  };
  const std::function<void()> works[] = {
      [&] { attend(); }, [&] { attend(), multiply(); }, [&] { attend(), attend(), multiply(); },
      [&] { attend(), multiply(), attend(); },
      [&] {
        attend();
        backend().Norm({.x = heads.device().Columns(0, shape.width()),
                        .gain = gain.device_vector(),
                        .y = attended.device()});
        multiply();
      }};
  static uint64_t key = uint64_t{1} << 40;
  for (const auto& work : works) {
    attended.Upload();
    y.Upload();
    work();
    const reference::Matrix rows = AsMatrix(attended), product = AsMatrix(y);
    ++key;
    for (int round = 0; round < 3; ++round) {
      attended.Upload();
      y.Upload();
      backend().Replay(key, work);
      ExpectNear(attended, rows);
      ExpectNear(y, product);
    }
  }
}

}  // namespace
}  // namespace beamline::attended_product_test
