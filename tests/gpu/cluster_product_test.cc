// Products whose input features are divided among the blocks of a cluster, with every tile, against
// the float64 twin.
#include "kernels/cuda/products/cluster_product.h"

#include "base/math.h"
#include "tests/gpu/cuda_fixture.h"
#include "tests/gpu/product_patterns.h"
#include "tests/gpu/random_weight.h"
#include "tests/kernels/small_cases.h"

namespace beamline::cluster_product_test {
namespace {

using cuda::ClusterTiles;

class ClusterProductTest : public HopperTypedTest {
 protected:
  double Tolerance() const { return dtype() == DType::kFloat16 ? 8e-4 : 6e-3; }
  RandomWeight Weight(int out_features, int in_features) {
    return MakeRandomWeight(backend(), dtype(), out_features, in_features, random());
  }
  // Rows that begin at multiples of so many elements and have what is not a number between them.
  StridedMatrix Operand(int rows, int columns, int alignment) {
    const int64_t stride = RoundUp(columns, alignment) + alignment * RandomInt(0, 2);
    std::vector<float> values = Normal(rows * stride);
    for (size_t i = 0; i < values.size(); ++i) {
      if (static_cast<int64_t>(i) % stride >= columns) {
        values[i] = std::numeric_limits<float>::quiet_NaN();
      }
    }
    return {backend(), dtype(), rows, columns, stride, std::move(values)};
  }
  auto With(const ClusterTiles& tiles) {
    return [this, tiles](const MatMulParams& params, const cuda::CudaWeight& weight) {
      cuda::ClusterProduct(device(), params, weight, tiles);
    };
  }
  static std::vector<ClusterTiles> AllTiles() {
    std::vector<ClusterTiles> all;
    for (const int rows : {32, 64}) {
      for (const int split : {1, 2, 4, 8}) all.push_back({rows, split});
    }
    return Cases(all, {{32, 8}, {64, 2}, {64, 1}});
  }
};
INSTANTIATE_TEST_SUITE_P(Types, ClusterProductTest,
                         testing::Values(DType::kFloat16, DType::kBFloat16), DTypeName);

TEST_P(ClusterProductTest, EveryShapeAndEpilogue) {
  struct Shape {
    int rows, in_features, out_features;
  };
  std::vector<Shape> all = {{17, 768, 768}, {33, 65, 66},   {128, 1024, 130}, {1, 8, 1},
                            {130, 520, 63}, {64, 300, 200}, {300, 72, 129},   {40, 64, 4096}};
  for (int i = 0; i < 6; ++i) {
    all.push_back({RandomInt(1, 300), RandomInt(1, 1024), RandomInt(1, 300)});
  }
  int round = 0;
  for (const Shape& shape : Cases(all, {all[1], all[4]})) {
    const RandomWeight weight = Weight(shape.out_features, shape.in_features);
    const StridedMatrix x = Operand(shape.rows, shape.in_features, 8);
    const TypedArray bias =
        TypedArray::Random(backend(), dtype(), 1, shape.out_features, 1.0f, random());
    const StridedMatrix residual = Operand(shape.rows, shape.out_features, 2);
    for (const ClusterTiles& tiles : AllTiles()) {
      const auto activation = static_cast<Activation>(round % 6);
      const bool biased = round % 2 == 0, adds = round % 3 != 0, in_place = round % 3 == 2;
      ++round;
      SCOPED_TRACE(testing::Message()
                   << shape.rows << " x " << shape.in_features << " x " << shape.out_features
                   << ", tiles " << tiles.rows << "/" << tiles.split << ", activation "
                   << static_cast<int>(activation) << (biased ? ", bias" : "")
                   << (adds ? ", residual" : "") << (in_place ? " in place" : ""));
      const reference::Matrix expected = ExpectedProduct(
          shape.rows, x, weight, biased ? &bias : nullptr, activation, adds ? &residual : nullptr);
      const StridedMatrix y = Poisoned(dtype(), shape.rows, shape.out_features, residual.stride());
      MatMulParams params;
      params.x = x.tensor();
      params.weight = weight.packed.get();
      params.activation = activation;
      if (biased) params.bias = bias.device_vector();
      params.y = in_place ? residual.tensor() : y.tensor();
      if (adds) params.residual = residual.tensor();
      cuda::ClusterProduct(device(), params, CudaOf(weight), tiles);
      EXPECT_LE((in_place ? residual : y).RelativeError(expected), Tolerance());
      if (in_place) residual.Upload();
    }
  }
}

TEST_P(ClusterProductTest, AChainGivesTheSameBits) {
  const int rows = SmallCases() ? 40 : 128, width = 512, layers = 12;
  std::vector<RandomWeight> weights;
  std::vector<TypedArray> hidden;
  for (int i = 0; i < layers; ++i) {
    weights.push_back(Weight(width, width));
    hidden.push_back(TypedArray::Poisoned(backend(), dtype(), rows, width));
  }
  const TypedArray x = TypedArray::Random(backend(), dtype(), rows, width, 1.0f, random());
  for (const ClusterTiles& tiles : AllTiles()) {
    SCOPED_TRACE(testing::Message() << tiles.rows << "/" << tiles.split);
    ExpectAChainOfTheSameBits(backend(), weights, x, hidden, SmallCases() ? 1 : 20, With(tiles));
  }
}

TEST_P(ClusterProductTest, ARowThatIsNotANumberStaysAlone) {
  const RandomWeight weight = Weight(320, 320);
  for (const ClusterTiles& tiles : AllTiles()) {
    ExpectNaNInItsRowAlone(backend(), weight, dtype(), /*rows=*/70, random(), With(tiles));
  }
}

}  // namespace
}  // namespace beamline::cluster_product_test
