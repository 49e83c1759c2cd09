// Products that norm their input on the way.
#include "tests/kernels/op_test.h"

namespace beamline::input_norm_op_test {
namespace {

constexpr double kNormTolerance = 4e-5;
// Of a product of normed rows, whose errors a gate multiplies.
constexpr double kTolerance = 1.6e-4;
constexpr double kOffset = 3.0;

class InputNormTest : public OpTest {
 protected:
  // A gain that is not all alike, and a mean that is not 0.
  DeviceArray<float> Shifted(size_t count, float scale) {
    std::vector<float> values = RandomFloats(count, scale);
    for (float& value : values) value += kOffset;
    return Upload(values);
  }

  FusedNorm MakeNorm(const DeviceArray<float>& gain, const DeviceArray<float>& bias, int size,
                     int variant) {
    FusedNorm norm;
    norm.kind = variant % 2 == 0 ? NormKind::kLayerNorm : NormKind::kRmsNorm;
    norm.gain = gain.tensor({size});
    if (variant / 2 % 2 == 0) norm.bias = bias.tensor({size});
    norm.epsilon = 1e-3f;
    return norm;
  }

  // What `normed` must hold.
  template <typename Params>
  static reference::Matrix Normed(const Params& params) {
    NormParams norm;
    norm.kind = params.input_norm.kind;
    norm.x = params.x;
    norm.gain = params.input_norm.gain;
    norm.bias = params.input_norm.bias;
    norm.epsilon = params.input_norm.epsilon;
    return reference::Norm(norm).y;
  }
};
BEAMLINE_INSTANTIATE_OP_TEST(InputNormTest);

// Rows and widths on both sides of what a GPU fuses, odd ones and its largest among them.
TEST_P(InputNormTest, MatMulMultipliesNormedRows) {
  for (int rows : {1, 2, 3, 5, 8, 9, 16, 17}) {
    for (int size : {1, 8, 65, 72, 512, 1020, 1024, 1028}) {
      const int half = RandomInt(1, 90);
      const Weight weight = RandomWeight(2 * half, size);
      const auto x = Shifted(rows * size, 2.0f);
      const auto gain = Shifted(size, 1.0f), bias = RandomArray(size),
                 y_bias = RandomArray(2 * half);
      for (int variant = 0; variant < 8; ++variant) {
        const bool gated = variant >= 4;
        const int columns = gated ? half : 2 * half;
        SCOPED_TRACE(testing::Message()
                     << rows << " x " << size << " x " << 2 * half << " variant " << variant);
        const auto residual = RandomArray(rows * columns);
        const auto normed = Output(rows * size), y = Output(rows * columns);
        MatMulParams params;
        params.x = x.tensor({rows, size});
        params.input_norm = MakeNorm(gain, bias, size, variant);
        params.normed = normed.tensor({rows, size});
        params.weight = weight.packed.get();
        params.bias = y_bias.tensor({2 * half});
        params.activation = gated ? Activation::kSilu : Activation::kRelu;
        params.gated = gated;
        if (variant % 3 != 0) params.residual = residual.tensor({rows, columns});
        params.y = y.tensor({rows, columns});
        backend().MatMul(params);
        ExpectNear(normed.Read(), Normed(params), kNormTolerance);
        ExpectNear(y.Read(), reference::MatMul(params, weight.values), gated ? 1e-3 : kTolerance);
      }
    }
  }
}

// As a post-norm model runs: what is normed here is the residual of the product after it, which
// writes over the rows that were normed.
TEST_P(InputNormTest, NormedRowsAreTheNextResidual) {
  const int size = 256, inner = 512;
  const Weight in = RandomWeight(inner, size), out = RandomWeight(size, inner);
  const auto gain = Shifted(size, 1.0f), bias = RandomArray(size);
  for (int rows : {1, 4, 16, 33}) {
    const auto hidden = RandomArray(rows * size), normed = Output(rows * size);
    const auto between = Output(rows * inner);
    MatMulParams first;
    first.x = hidden.tensor({rows, size});
    first.input_norm = MakeNorm(gain, bias, size, 0);
    first.normed = normed.tensor({rows, size});
    first.weight = in.packed.get();
    first.y = between.tensor({rows, inner});
    MatMulParams second;
    second.x = first.y;
    second.weight = out.packed.get();
    second.residual = first.normed;
    second.y = first.x;
    const reference::Matrix expected_between = reference::MatMul(first, in.values);
    const reference::Matrix expected_normed = Normed(first);
    backend().MatMul(first);
    backend().MatMul(second);
    ExpectNear(between.Read(), expected_between, kTolerance);
    const reference::Matrix expected = reference::MatMul(second, out.values);
    ExpectNear(normed.Read(), expected_normed, kNormTolerance);
    ExpectNear(hidden.Read(), expected, kTolerance);
  }
}

TEST_P(InputNormTest, ProjectHeadsProjectsNormedRows) {
  const int heads = 3, head_dim = 8, width = 3 * heads * head_dim;
  for (int rows : {1, 2, 7, 8, 16, 18}) {
    for (int size : {40, 37, 512, 1024, 1040}) {
      const Weight weight = RandomWeight(width, size);
      const auto x = Shifted(rows * size, 2.0f);
      const auto gain = Shifted(size, 1.0f), bias = RandomArray(size);
      const auto cos_sin = RandomArray(16 * head_dim);
      const auto positions = UploadIds(RandomIds(rows, 16));
      const Rotary rotary = {.cos_sin = cos_sin.tensor({16, head_dim})};
      for (int variant = 0; variant < 8; ++variant) {
        SCOPED_TRACE(testing::Message() << rows << " x " << size << " variant " << variant);
        const auto normed = Output(rows * size), workspace = Output(rows * width);
        const auto query = Output(rows * heads * head_dim), key = Output(rows * heads * head_dim);
        const auto value = Output(rows * heads * head_dim);
        ProjectHeadsParams params;
        params.x = x.tensor({rows, size});
        params.input_norm = MakeNorm(gain, bias, size, variant);
        params.normed = normed.tensor({rows, size});
        params.weight = weight.packed.get();
        params.num_heads = params.num_kv_heads = heads;
        params.head_dim = head_dim;
        params.positions = positions.data();
        if (variant >= 4) params.rotary = &rotary;
        params.query = query.tensor({rows, heads * head_dim});
        params.key = key.tensor({rows, heads * head_dim});
        params.value = value.tensor({rows, heads * head_dim});
        params.workspace = workspace.tensor({rows, width});
        backend().ProjectHeads(params);
        const reference::HeadsResult expected = reference::ProjectHeads(params, weight.values);
        ExpectNear(normed.Read(), Normed(params), kNormTolerance);
        ExpectNear(query.Read(), expected.query, kTolerance);
        ExpectNear(key.Read(), expected.key, kTolerance);
        ExpectNear(value.Read(), expected.value, kTolerance);
      }
    }
  }
}

// Where a variance of squares minus the square of the mean would fail; see row_op_test.cc.
TEST_P(InputNormTest, KeepsPrecisionFarFromZero) {
  const int size = 256;
  std::vector<float> values = RandomFloats(size);
  for (float& value : values) value += 1000.0f;
  const auto x = Upload(values), gain = Upload(std::vector<float>(size, 1.0f));
  const auto normed = Output(size), y = Output(16);
  const Weight weight = RandomWeight(16, size);
  MatMulParams params;
  params.x = x.tensor({1, size});
  params.input_norm.gain = gain.tensor({size});
  params.normed = normed.tensor({1, size});
  params.weight = weight.packed.get();
  params.y = y.tensor({1, 16});
  backend().MatMul(params);
  ExpectNear(normed.Read(), Normed(params), 2e-3);
  ExpectNear(y.Read(), reference::MatMul(params, weight.values), 2e-3);
}

// To the bit where both add in one order, as on a CPU.
TEST_P(InputNormTest, GivesWhatTwoOperatorsGive) {
  const int rows = 5, size = 120, columns = 70;
  const Weight weight = RandomWeight(columns, size);
  const auto x = RandomArray(rows * size), gain = RandomArray(size), bias = RandomArray(size);
  const auto normed = Output(rows * size), y = Output(rows * columns);
  const auto separate = Output(rows * size), separate_y = Output(rows * columns);
  MatMulParams params;
  params.x = x.tensor({rows, size});
  params.input_norm = MakeNorm(gain, bias, size, 0);
  params.normed = normed.tensor({rows, size});
  params.weight = weight.packed.get();
  params.y = y.tensor({rows, columns});
  backend().MatMul(params);
  NormParams norm;
  norm.x = params.x;
  norm.gain = params.input_norm.gain;
  norm.bias = params.input_norm.bias;
  norm.epsilon = params.input_norm.epsilon;
  norm.y = separate.tensor({rows, size});
  backend().Norm(norm);
  params.x = norm.y;
  params.input_norm = {};
  params.y = separate_y.tensor({rows, columns});
  backend().MatMul(params);
  const std::vector<float> together = y.Read(), apart = separate_y.Read();
  if (backend().Name() == "cpu") {
    ExpectSameBits(normed.Read(), separate.Read());
    ExpectSameBits(together, apart);
  }
  for (size_t i = 0; i < apart.size(); ++i) EXPECT_NEAR(together[i], apart[i], kTolerance);
}

}  // namespace
}  // namespace beamline::input_norm_op_test
