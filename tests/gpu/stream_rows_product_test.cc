// Products of few rows and a large weight against the float64 twin.
#include "kernels/cuda/products/stream_rows_product.h"

#include "tests/gpu/cuda_fixture.h"
#include "tests/gpu/product_patterns.h"
#include "tests/gpu/random_weight.h"
#include "tests/kernels/small_cases.h"

namespace beamline::stream_rows_product_test {
namespace {

class StreamRowsProductTest : public HopperTypedTest {};
INSTANTIATE_TEST_SUITE_P(Types, StreamRowsProductTest,
                         testing::Values(DType::kFloat16, DType::kBFloat16), DTypeName);

TEST_P(StreamRowsProductTest, EveryShapeAndEpilogue) {
  struct Shape {
    int rows, in_features, out_features;
  };
  std::vector<Shape> all = {{4, 4096, 4099}, {2, 8, 1}, {8, 520, 63}, {3, 64, 5000}, {5, 1096, 17}};
  for (int i = 0; i < 4; ++i) {
    all.push_back({RandomInt(2, 8), 8 * RandomInt(1, 300), RandomInt(1, 3000)});
  }
  int round = 0;
  for (const Shape& shape : Cases(all, {all[1], all[2], all[4]})) {
    const RandomWeight weight =
        MakeRandomWeight(backend(), dtype(), shape.out_features, shape.in_features, random());
    const StridedMatrix x =
        RandomMatrix(dtype(), shape.rows, shape.in_features, shape.in_features + 8);
    const TypedArray bias =
        TypedArray::Random(backend(), dtype(), 1, shape.out_features, 1.0f, random());
    const StridedMatrix residual =
        RandomMatrix(dtype(), shape.rows, shape.out_features, shape.out_features + 3);
    for (const DType y_dtype : {dtype(), DType::kFloat32}) {
      const auto activation = static_cast<Activation>(round % 6);
      const bool biased = round % 2 == 0, adds = round % 3 != 0 && y_dtype == dtype();
      ++round;
      SCOPED_TRACE(testing::Message() << shape.rows << " x " << shape.in_features << " x "
                                      << shape.out_features << " into " << Name(y_dtype)
                                      << (biased ? ", bias" : "") << (adds ? ", residual" : ""));
      const reference::Matrix expected = ExpectedProduct(
          shape.rows, x, weight, biased ? &bias : nullptr, activation, adds ? &residual : nullptr);
      const StridedMatrix y =
          Poisoned(y_dtype, shape.rows, shape.out_features, shape.out_features + 1);
      MatMulParams params;
      params.x = x.tensor();
      params.weight = weight.packed.get();
      params.activation = activation;
      if (biased) params.bias = bias.device_vector();
      params.y = y.tensor();
      if (adds) params.residual = residual.tensor();
      ASSERT_TRUE(cuda::StreamRowsProduct(device(), params,
                                          static_cast<const cuda::CudaWeight&>(*weight.packed)));
      EXPECT_LE(y.RelativeError(expected), dtype() == DType::kFloat16 ? 8e-4 : 6e-3);
    }
  }
}

TEST_P(StreamRowsProductTest, ARowThatIsNotANumberStaysAlone) {
  const RandomWeight weight = MakeRandomWeight(backend(), dtype(), 320, 320, random());
  for (const int rows : {2, 5, 8}) {
    ExpectNaNInItsRowAlone(backend(), weight, dtype(), rows, random(),
                           [&](const MatMulParams& params, const cuda::CudaWeight& of) {
                             return cuda::StreamRowsProduct(device(), params, of);
                           });
  }
}

}  // namespace
}  // namespace beamline::stream_rows_product_test
