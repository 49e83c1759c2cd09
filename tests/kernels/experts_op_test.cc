// A mixture of experts: routes, and the products of each expert's rows.
#include <algorithm>
#include <memory>

#include "tests/kernels/op_test.h"
#include "tests/kernels/small_cases.h"

namespace beamline::experts_op_test {
namespace {

constexpr double kTolerance = 2e-5;  // two products of up to 300 numbers, and sums of 8

struct Shape {
  int num_experts, num_chosen;
  int hidden_size, inner_size;
};

class ExpertsTest : public OpTest {
 protected:
  // The experts of a shape, packed, and their values.
  struct Weights {
    std::vector<std::unique_ptr<PackedWeight>> packed;
    std::vector<const PackedWeight*> in, out;
    std::vector<reference::Matrix> in_values, out_values;
  };

  Weights RandomExperts(const Shape& shape) {
    Weights weights;
    for (int e = 0; e < shape.num_experts; ++e) {
      Weight in = RandomWeight(2 * shape.inner_size, shape.hidden_size);
      Weight out = RandomWeight(shape.hidden_size, shape.inner_size);
      weights.in.push_back(in.packed.get());
      weights.out.push_back(out.packed.get());
      weights.in_values.push_back(std::move(in.values));
      weights.out_values.push_back(std::move(out.values));
      weights.packed.push_back(std::move(in.packed));
      weights.packed.push_back(std::move(out.packed));
    }
    return weights;
  }

  // Computes rows with these logits, [num_rows, num_experts].
  std::vector<float> Compute(const Shape& shape, const Weights& weights,
                             const std::vector<float>& x_values, const std::vector<float>& logits,
                             bool renormalize, bool with_residual) {
    const int64_t num_rows = static_cast<int64_t>(x_values.size()) / shape.hidden_size;
    const int64_t num_places = num_rows * shape.num_chosen;
    const auto x = Upload(x_values), router = Upload(logits);
    const auto inner = Output(num_places * shape.inner_size);
    const auto outputs = Output(num_places * shape.hidden_size);
    const auto y = with_residual ? RandomArray(num_rows * shape.hidden_size)
                                 : Output(num_rows * shape.hidden_size);
    ExpertsParams params;
    params.x = x.tensor({num_rows, shape.hidden_size});
    params.router_logits = router.tensor({num_rows, shape.num_experts});
    params.num_chosen = shape.num_chosen;
    params.renormalize = renormalize;
    params.in = weights.in;
    params.out = weights.out;
    params.activation = Activation::kSilu;
    params.inner = inner.tensor({num_places, shape.inner_size});
    params.outputs = outputs.tensor({num_places, shape.hidden_size});
    params.y = y.tensor({num_rows, shape.hidden_size});
    if (with_residual) params.residual = params.y;
    const reference::Matrix expected =
        reference::Experts(params, weights.in_values, weights.out_values);
    backend().Experts(params);
    std::vector<float> actual = y.Read();
    ExpectNear(actual, expected, kTolerance);
    return actual;
  }
};
BEAMLINE_INSTANTIATE_OP_TEST(ExpertsTest);

// Sizes that are no multiples of anything; all experts chosen; more experts than a warp has
// threads; more rows of an expert than a tile.
TEST_P(ExpertsTest, MatchReference) {
  for (const Shape& shape : Cases<Shape>({{8, 2, 64, 96},
                                          {5, 3, 45, 33},
                                          {1, 1, 24, 7},
                                          {3, 3, 130, 129},
                                          {70, 8, 32, 40},
                                          {256, 32, 16, 16}},
                                         {{8, 2, 64, 96}, {5, 3, 45, 33}})) {
    const Weights weights = RandomExperts(shape);
    for (const int num_rows : Cases<int>({1, 3, 17, 200}, {1, 100})) {
      SCOPED_TRACE(testing::Message()
                   << num_rows << " rows, " << shape.num_chosen << " of " << shape.num_experts
                   << " experts, " << shape.hidden_size << " x " << shape.inner_size);
      const std::vector<float> x = RandomFloats(num_rows * shape.hidden_size);
      const std::vector<float> logits = RandomFloats(num_rows * shape.num_experts, 2.0f);
      for (const bool renormalize : {false, true}) {
        Compute(shape, weights, x, logits, renormalize, /*with_residual=*/renormalize);
      }
    }
  }
}

// All rows to one expert, and none to most: nothing is dropped.
TEST_P(ExpertsTest, CrowdsAndEqualLogits) {
  const Shape shape = {6, 2, 40, 24};
  const Weights weights = RandomExperts(shape);
  const std::vector<float> x = RandomFloats(150 * shape.hidden_size);
  std::vector<float> logits(150 * shape.num_experts, 0.0f);  // of equal ones the lower expert
  Compute(shape, weights, x, logits, /*renormalize=*/true, /*with_residual=*/false);
  for (size_t row = 0; row < 150; ++row) logits[row * shape.num_experts + 4] = 3.0f;
  Compute(shape, weights, x, logits, /*renormalize=*/false, /*with_residual=*/true);
}

// A row alone has the bits that it has among others, whichever experts they go to.
TEST_P(ExpertsTest, ARowDoesNotDependOnItsBatch) {
  const Shape shape = {8, 2, 64, 48};
  const Weights weights = RandomExperts(shape);
  constexpr int kRows = 90;
  const std::vector<float> x = RandomFloats(kRows * shape.hidden_size);
  const std::vector<float> logits = RandomFloats(kRows * shape.num_experts);
  const std::vector<float> all = Compute(shape, weights, x, logits, true, false);
  for (const int row : {0, 41, kRows - 1}) {
    const auto one = [row](const std::vector<float>& values, int size) {
      return std::vector<float>(values.begin() + row * size, values.begin() + (row + 1) * size);
    };
    const std::vector<float> alone = Compute(shape, weights, one(x, shape.hidden_size),
                                             one(logits, shape.num_experts), true, false);
    ExpectSameBits(alone, one(all, shape.hidden_size));
  }
}

// An expert of all rows, whose share is a column behind those of the others.
TEST_P(ExpertsTest, AddASharedOne) {
  const Shape shape = {5, 2, 40, 24};
  const Weights weights = RandomExperts(shape);
  for (const int num_rows : {1, 70}) {
    const auto x = RandomArray(num_rows * shape.hidden_size);
    const auto router = RandomArray(num_rows * (shape.num_experts + 1), 2.0f);
    const auto shared = RandomArray(num_rows * shape.hidden_size);
    const auto inner = Output(num_rows * 2 * shape.inner_size);
    const auto outputs = Output(num_rows * 2 * shape.hidden_size);
    const auto y = Output(num_rows * shape.hidden_size);
    ExpertsParams params;
    params.x = x.tensor({num_rows, shape.hidden_size});
    params.router_logits = router.tensor({num_rows, shape.num_experts + 1});
    params.num_chosen = 2;
    params.in = weights.in;
    params.out = weights.out;
    params.activation = Activation::kSilu;
    params.inner = inner.tensor({num_rows * 2, shape.inner_size});
    params.outputs = outputs.tensor({num_rows * 2, shape.hidden_size});
    params.shared = shared.tensor({num_rows, shape.hidden_size});
    params.y = y.tensor({num_rows, shape.hidden_size});
    backend().Experts(params);
    ExpectNear(y.Read(), reference::Experts(params, weights.in_values, weights.out_values),
               kTolerance);
  }
}

// What is no number stays none: it is answered by an error, not by a text.
TEST_P(ExpertsTest, NansPass) {
  const Shape shape = {4, 2, 16, 8};
  const Weights weights = RandomExperts(shape);
  const auto x = Upload(std::vector<float>(16, std::nanf("")));
  const auto router = Upload(std::vector<float>(4, std::nanf("")));
  const auto inner = Output(2 * 8), outputs = Output(2 * 16);
  const auto y = Upload(std::vector<float>(16, 0.0f));
  ExpertsParams params;
  params.x = x.tensor({1, 16});
  params.router_logits = router.tensor({1, 4});
  params.num_chosen = 2;
  params.in = weights.in;
  params.out = weights.out;
  params.inner = inner.tensor({2, 8});
  params.outputs = outputs.tensor({2, 16});
  params.y = y.tensor({1, 16});
  backend().Experts(params);
  for (const float value : y.Read()) EXPECT_TRUE(std::isnan(value));
}

}  // namespace
}  // namespace beamline::experts_op_test
