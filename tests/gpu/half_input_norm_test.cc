// MatMul behind a norm of its input in float16, bfloat16 and float32. (ProjectHeads:
// half_heads_test.cc.)
#include "tests/gpu/half_op_fixture.h"
#include "tests/kernels/small_cases.h"

namespace beamline::half_input_norm_test {
namespace {

class HalfInputNormTest : public HalfOpTest {
 protected:
  struct Norm {
    TypedArray gain, bias;
    NormKind kind;
    bool biased;

    void GiveTo(MatMulParams& device, MatMulParams& host) const {
      device.input_norm = {kind, gain.device_vector(), {}, 1e-4f};
      host.input_norm = {kind, gain.host_vector(), {}, 1e-4f};
      if (biased) device.input_norm.bias = bias.device_vector();
      if (biased) host.input_norm.bias = bias.host_vector();
    }
  };

  static reference::Matrix Normed(const MatMulParams& host) {
    NormParams norm;
    norm.kind = host.input_norm.kind;
    norm.x = host.x;
    norm.gain = host.input_norm.gain;
    norm.bias = host.input_norm.bias;
    norm.epsilon = host.input_norm.epsilon;
    return reference::Norm(norm).y;
  }
};
INSTANTIATE_TEST_SUITE_P(Types, HalfInputNormTest,
                         testing::Values(DType::kFloat32, DType::kFloat16, DType::kBFloat16),
                         DTypeName);

// Rows, widths and features on both sides of what one kernel takes; some cannot be read 16 bytes at
// a time.
TEST_P(HalfInputNormTest, MatMulWithEveryEpilogue) {
  struct Shape {
    int rows, in_features, half;
  };
  const std::vector<Shape> all = {{1, 8, 3},      {1, 768, 1152},  {2, 512, 768},   {3, 72, 50},
                                  {4, 512, 1024}, {4, 496, 33},    {5, 1032, 40},   {7, 96, 17},
                                  {8, 1024, 64},  {9, 504, 80},    {12, 512, 20},   {16, 320, 40},
                                  {16, 512, 90},  {17, 256, 33},   {77, 65, 64},    {3, 65, 64},
                                  {4, 64, 4300},  {1, 512, 30},    {1, 2056, 4100}, {1, 5128, 2050},
                                  {4, 1024, 530}, {3, 1016, 1100}, {2, 776, 9},     {4, 520, 2047},
                                  {1, 1024, 70},  {1, 264, 100},   {2, 504, 1100},  {3, 384, 500},
                                  {4, 128, 9},    {2, 512, 1055},  {3, 4096, 2064}};
  for (const Shape& shape :
       Cases(all, {all[17], all[4], all[7], all[12], all[13], all[19], all[20], all[27]})) {
    const Weight weight = RandomWeight(2 * shape.half, shape.in_features);
    const TypedArray x = Random(shape.rows, shape.in_features, 1.5f);
    const TypedArray bias = Random(1, 2 * shape.half);
    for (int variant :
         Cases<int>({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, {0, 15})) {
      const bool gated = (variant & 1) != 0;
      const int columns = gated ? shape.half : 2 * shape.half;
      const Norm norm = {Random(1, shape.in_features), Random(1, shape.in_features),
                         (variant & 8) != 0 ? NormKind::kRmsNorm : NormKind::kLayerNorm,
                         RandomInt(0, 1) == 1};
      const TypedArray residual = Random(shape.rows, columns);
      const TypedArray normed = Output(shape.rows, shape.in_features);
      const TypedArray y = Output(shape.rows, columns);
      SCOPED_TRACE(testing::Message() << shape.rows << "x" << shape.in_features << "x"
                                      << 2 * shape.half << " variant " << variant);
      MatMulParams params, expected;
      params.weight = expected.weight = weight.packed.get();
      params.activation = expected.activation = gated ? Activation::kGelu : Activation::kRelu;
      params.gated = expected.gated = gated;
      params.x = x.device();
      expected.x = x.host_tensor();
      norm.GiveTo(params, expected);
      params.normed = normed.device();
      if ((variant & 2) != 0) {
        params.bias = bias.device_vector();
        expected.bias = bias.host_vector();
      }
      if ((variant & 4) != 0) {
        params.residual = residual.device();
        expected.residual = residual.host_tensor();
      }
      params.y = y.device();
      expected.y = y.host_tensor();
      backend().MatMul(params);
      ExpectClose(normed, Normed(expected));
      // The product is one of the rounded rows: few numbers may nearly cancel, and a gate
      // multiplies what rounding costs.
      const TypedArray rounded(backend(), dtype(), shape.rows, shape.in_features, normed.Read());
      expected.x = rounded.host_tensor();
      expected.input_norm = {};
      ExpectClose(y, reference::MatMul(expected, weight.values),
                  (gated ? 4 : 2) * Tolerance(dtype()));
    }
  }
}

// A single number far from the others of its row, or a row of one number, is no case of its own.
TEST_P(HalfInputNormTest, NormsRowsOfOneNumberAndWithAnOutlier) {
  constexpr int kRows = 3, kSize = 512, kColumns = 48;
  const Weight weight = RandomWeight(kColumns, kSize);
  TypedArray start = Random(kRows, kSize);
  std::vector<float> values = start.host();
  for (int c = 0; c < kSize; ++c) values[c] = 2.0f;
  values[kSize + 77] = 3000.0f;
  const TypedArray x(backend(), dtype(), kRows, kSize, values);
  const Norm norm = {Random(1, kSize), Random(1, kSize), NormKind::kLayerNorm, true};
  const TypedArray normed = Output(kRows, kSize), y = Output(kRows, kColumns);
  MatMulParams params, expected;
  params.weight = weight.packed.get();
  params.x = x.device(), expected.x = x.host_tensor();
  norm.GiveTo(params, expected);
  params.normed = normed.device();
  params.y = y.device(), expected.y = y.host_tensor();
  backend().MatMul(params);
  ExpectClose(normed, Normed(expected));
  ExpectClose(y, reference::MatMul(expected, weight.values), 2 * Tolerance(dtype()));
}

}  // namespace
}  // namespace beamline::half_input_norm_test
