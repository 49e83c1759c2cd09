// bfloat16 as the CPU has it: weights and products' inputs in it, activations in float32. On a GPU
// activations are bfloat16 too (tests/gpu/half_op_test.cc).
#include <algorithm>

#include "tests/kernels/op_test.h"

namespace beamline::bf16_matmul_op_test {
namespace {

constexpr double kTolerance = 1e-5;  // float32 sums of up to a few hundred products

class BFloat16MatMulTest : public OpTest {};
BEAMLINE_INSTANTIATE_OP_TEST(BFloat16MatMulTest);

// bfloat16 rounds the inputs and the weights, and nothing else.
TEST_P(BFloat16MatMulTest, MatchesReferenceOfRoundedInputs) {
  if (!backend().SupportsDType(DType::kBFloat16).ok()) GTEST_SKIP() << "no bfloat16 here";
  ASSERT_EQ(backend().ActivationDType(DType::kBFloat16), DType::kFloat32);
  const auto round = [](float value) {
    uint32_t bits = 0;
    std::memcpy(&bits, &value, sizeof(bits));
    bits = (bits + 0x7fff + ((bits >> 16) & 1)) & 0xffff0000u;
    std::memcpy(&value, &bits, sizeof(bits));
    return value;
  };
  const struct {
    int rows, in_features, out_features;
  } shapes[] = {{1, 40, 6001}, {37, 77, 65}, {127, 192, 576}, {200, 33, 30}, {64, 256, 1300}};
  for (const auto& shape : shapes) {
    SCOPED_TRACE(testing::Message()
                 << shape.rows << " x " << shape.in_features << " x " << shape.out_features);
    const std::vector<float> values = RandomFloats(shape.out_features * shape.in_features, 0.1f);
    const HostMatrix matrix = {
        .data = values.data(), .rows = shape.out_features, .cols = shape.in_features};
    const auto weight = backend().PackWeight({&matrix, 1}, DType::kBFloat16);
    ASSERT_TRUE(weight.ok()) << weight.status();
    reference::Matrix rounded(shape.out_features, shape.in_features);
    std::transform(values.begin(), values.end(), rounded.values.begin(), round);
    std::vector<float> inputs = RandomFloats(shape.rows * shape.in_features);
    const auto x = Upload(inputs);
    std::transform(inputs.begin(), inputs.end(), inputs.begin(), round);
    const auto rounded_x = Upload(inputs);
    const auto bias = RandomArray(shape.out_features);
    const auto y = Output(shape.rows * shape.out_features);
    MatMulParams params;
    params.x = x.tensor({shape.rows, shape.in_features});
    params.weight = weight->get();
    params.bias = bias.tensor({shape.out_features});
    params.activation = Activation::kGelu;
    params.y = y.tensor({shape.rows, shape.out_features});
    backend().MatMul(params);
    params.x = rounded_x.tensor({shape.rows, shape.in_features});
    ExpectNear(y.Read(), reference::MatMul(params, rounded), kTolerance);
  }
}

}  // namespace
}  // namespace beamline::bf16_matmul_op_test
