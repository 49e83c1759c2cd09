// Products of few rows in float32, each size for a kernel, or a form of one, of its own.
#include <utility>

#include "tests/gpu/half_op_fixture.h"
#include "tests/kernels/small_cases.h"

namespace beamline::few_rows_test {
namespace {

class FloatRowsTest : public HalfOpTest {};
INSTANTIATE_TEST_SUITE_P(Types, FloatRowsTest, testing::Values(DType::kFloat32), DTypeName);

// On both sides of the most features of some, the fewest of others, and their longest rows.
TEST_P(FloatRowsTest, FewRowsOfEverySize) {
  const std::vector<std::pair<int, int>> shapes =
      Cases<std::pair<int, int>>({{24, 9},
                                  {512, 528},
                                  {388, 1001},
                                  {512, 1584},
                                  {260, 2112},
                                  {512, 2113},
                                  {516, 100},
                                  {1024, 513},
                                  {2048, 528},
                                  {2052, 40},
                                  {512, 8448},
                                  {512, 9001},
                                  {260, 10007},
                                  {4, 21000},
                                  {516, 9000}},
                                 {{72, 40}, {40, 600}, {24, 1700}, {1040, 37}, {36, 8501}});
  for (const auto& [in_features, out_features] : shapes) {
    const Weight weight = RandomWeight(out_features, in_features);
    for (int rows : Cases<int>({1, 2, 3, 4, 5}, {1, 3})) {
      SCOPED_TRACE(testing::Message() << rows << "x" << in_features << "x" << out_features);
      const TypedArray x = Random(rows, in_features), bias = Random(1, out_features);
      const TypedArray residual = Random(rows, out_features), y = Output(rows, out_features);
      for (int variant = 0; variant < 4; ++variant) {
        MatMulParams params, expected;
        params.weight = expected.weight = weight.packed.get();
        params.activation = expected.activation = Activation::kRelu;
        params.x = x.device(), expected.x = x.host_tensor();
        if ((variant & 1) != 0) {
          params.bias = bias.device_vector(), expected.bias = bias.host_vector();
        }
        if ((variant & 2) != 0) {
          params.residual = residual.device(), expected.residual = residual.host_tensor();
        }
        params.y = y.device(), expected.y = y.host_tensor();
        backend().MatMul(params);
        ExpectClose(y, reference::MatMul(expected, weight.values));
      }
    }
  }
}

}  // namespace
}  // namespace beamline::few_rows_test
