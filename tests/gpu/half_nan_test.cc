// tests/kernels/nan_op_test.cc in the GPU's three types, where each number of rows has kernels of
// its own: those of few rows, cuBLASLt with the activation in its epilogue, and the finishing pass.
#include <cmath>
#include <string>
#include <vector>

#include "tests/gpu/half_op_fixture.h"

namespace beamline::half_nan_test {
namespace {

class HalfNanTest : public HalfOpTest {};
INSTANTIATE_TEST_SUITE_P(Types, HalfNanTest,
                         testing::Values(DType::kFloat32, DType::kFloat16, DType::kBFloat16),
                         DTypeName);

TEST_P(HalfNanTest, NanStaysInItsRowOfAProduct) {
  struct Shape {
    int in_features, half;
  };
  for (const Shape& shape : {Shape{256, 64}, {768, 384}, {2048, 1024}}) {
    const Weight weight = RandomWeight(2 * shape.half, shape.in_features);
    const TypedArray bias = Random(1, 2 * shape.half);
    for (int rows : {1, 2, 4, 7, 16, 33, 130, 2048}) {
      const int bad = RandomInt(0, rows - 1);
      std::vector<float> values = Random(rows, shape.in_features).host();
      values[int64_t{bad} * shape.in_features + RandomInt(0, shape.in_features - 1)] =
          std::nanf("");
      const TypedArray x(backend(), dtype(), rows, shape.in_features, values);
      for (Activation activation : {Activation::kRelu, Activation::kGelu, Activation::kGeluTanh,
                                    Activation::kSilu, Activation::kTanh}) {
        for (int variant = 0; variant < 4; ++variant) {
          const bool gated = (variant & 1) != 0, biased = (variant & 2) != 0;
          const int columns = gated ? shape.half : 2 * shape.half;
          const TypedArray y(backend(), dtype(), rows, columns,
                             std::vector<float>(int64_t{rows} * columns, 7.0f));
          MatMulParams params;
          params.weight = weight.packed.get();
          params.activation = activation;
          params.gated = gated;
          params.x = x.device();
          if (biased) params.bias = bias.device_vector();
          params.y = y.device();
          backend().MatMul(params);
          const std::vector<float> result = y.Read();
          int64_t wrong = 0;
          for (size_t i = 0; i < result.size(); ++i) {
            wrong += std::isnan(result[i]) != (static_cast<int>(i) / columns == bad);
          }
          EXPECT_EQ(wrong, 0) << rows << "x" << shape.in_features << "x" << 2 * shape.half
                              << " activation " << static_cast<int>(activation) << " gated "
                              << gated << " biased " << biased;
        }
      }
    }
  }
}

}  // namespace
}  // namespace beamline::half_nan_test
