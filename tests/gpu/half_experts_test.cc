// A mixture of experts in 16-bit types.
#include <algorithm>
#include <memory>
#include <vector>

#include "tests/gpu/half_op_fixture.h"
#include "tests/kernels/small_cases.h"

namespace beamline::half_experts_test {
namespace {

struct Shape {
  int num_experts, num_chosen, hidden_size, inner_size;
};

class HalfExpertsTest : public HalfOpTest {};
INSTANTIATE_TEST_SUITE_P(Types, HalfExpertsTest,
                         testing::Values(DType::kFloat32, DType::kFloat16, DType::kBFloat16),
                         DTypeName);

// Rows that are read 16 bytes at a time, and rows that cannot be; fewer and more of an expert than
// each of the tiles has, which places of an expert on average choose; parts of features and of
// tiles that are not full.
TEST_P(HalfExpertsTest, MatchReference) {
  for (const Shape& shape :
       Cases<Shape>({{8, 2, 512, 448}, {5, 3, 77, 51}, {64, 8, 128, 96}, {3, 2, 264, 136}},
                    {{8, 2, 128, 96}, {5, 3, 77, 51}, {3, 2, 72, 136}})) {
    std::vector<std::unique_ptr<PackedWeight>> packed;
    std::vector<const PackedWeight*> in, out;
    std::vector<reference::Matrix> in_values, out_values;
    for (int e = 0; e < shape.num_experts; ++e) {
      Weight first = RandomWeight(2 * shape.inner_size, shape.hidden_size);
      Weight second = RandomWeight(shape.hidden_size, shape.inner_size);
      in.push_back(first.packed.get()), out.push_back(second.packed.get());
      in_values.push_back(std::move(first.values)), out_values.push_back(std::move(second.values));
      packed.push_back(std::move(first.packed)), packed.push_back(std::move(second.packed));
    }
    for (const int num_rows : {1, 5, 150}) {
      for (const bool renormalize : {false, true}) {
        SCOPED_TRACE(testing::Message()
                     << num_rows << " rows, " << shape.num_experts << " experts");
        const int num_places = num_rows * shape.num_chosen;
        const TypedArray x = Random(num_rows, shape.hidden_size);
        const TypedArray logits = TypedArray::Random(backend(), DType::kFloat32, num_rows,
                                                     shape.num_experts, 2.0f, random_);
        const TypedArray y = Random(num_rows, shape.hidden_size);
        const TypedArray inner = Output(num_places, shape.inner_size);
        const TypedArray outputs = Output(num_places, shape.hidden_size);
        ExpertsParams params;
        params.num_chosen = shape.num_chosen;
        params.renormalize = renormalize;
        params.activation = Activation::kSilu;
        ExpertsParams expected = params;
        params.in = in, params.out = out;
        params.x = x.device(), expected.x = x.host_tensor();
        params.router_logits = logits.device(), expected.router_logits = logits.host_tensor();
        params.residual = params.y = y.device(), expected.residual = y.host_tensor();
        params.inner = inner.device();
        params.outputs = outputs.device();
        backend().Experts(params);
        // The inner features and each expert's outputs are rounded before the sum.
        ExpectClose(y, reference::Experts(expected, in_values, out_values), 2 * Tolerance(dtype()));
      }
    }
  }
}

}  // namespace
}  // namespace beamline::half_experts_test
