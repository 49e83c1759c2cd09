// Kernels that start before the one ahead of them is done (launch.cuh) see all of its results: a
// chain of small operators gives the bits that it gives with a wait behind each of them.
#include <functional>

#include "tests/gpu/half_op_fixture.h"
#include "tests/kernels/small_cases.h"

namespace beamline {
namespace {

constexpr int kLayers = 6, kHidden = 256, kInner = 520, kHeadDim = 32;

class OverlapTest : public HalfOpTest {
 protected:
  struct Layer {
    Weight heads, in, out;
    TypedArray gain, bias;
  };

  struct Arrays {
    TypedArray hidden, other, keys, values, workspace, inner;
  };

  void MakeLayers() {
    for (int i = 0; i < kLayers; ++i) {
      layers_.push_back({RandomWeight(3 * kHidden, kHidden), RandomWeight(kInner, kHidden),
                         RandomWeight(kHidden, kInner), Random(1, kHidden), Random(1, kHidden)});
    }
  }

  // Norm, heads (whose queries go on), norm, feed forward into the residual; done() behind each.
  void Run(const Arrays& a, const std::function<void()>& done) {
    for (const Layer& layer : layers_) {
      const auto normalise = [&](const Tensor& x, const Tensor& y) {
        backend().Norm({.x = x,
                        .gain = layer.gain.device_vector(),
                        .bias = layer.bias.device_vector(),
                        .y = y});
        done();
      };
      normalise(a.hidden.device(), a.other.device());
      ProjectHeadsParams heads;
      heads.x = a.other.device();
      heads.weight = layer.heads.packed.get();
      heads.num_heads = heads.num_kv_heads = kHidden / kHeadDim;
      heads.head_dim = kHeadDim;
      heads.query = a.hidden.device();
      heads.key = a.keys.device();
      heads.value = a.values.device();
      heads.workspace = a.workspace.device();
      backend().ProjectHeads(heads);
      done();
      normalise(a.keys.device(), a.other.device());
      backend().MatMul({.x = a.other.device(),
                        .weight = layer.in.packed.get(),
                        .activation = Activation::kGelu,
                        .y = a.inner.device()});
      done();
      backend().MatMul({.x = a.inner.device(),
                        .weight = layer.out.packed.get(),
                        .residual = a.hidden.device(),
                        .y = a.hidden.device()});
      done();
    }
  }

  std::vector<Layer> layers_;
};

INSTANTIATE_TEST_SUITE_P(Types, OverlapTest,
                         testing::Values(DType::kFloat32, DType::kFloat16, DType::kBFloat16),
                         DTypeName);

TEST_P(OverlapTest, ChainsGiveTheBitsOfSeparateSteps) {
  MakeLayers();
  const int repeats = SmallCases() ? 3 : 20;
  for (int rows : Cases<int>({1, 2, 7, 8, 16}, {2, 16})) {
    if (rows > 8 && dtype() == DType::kFloat32) continue;  // cuBLASLt's
    const TypedArray start = Random(rows, kHidden);
    const Arrays a = {Output(rows, kHidden), Output(rows, kHidden),     Output(rows, kHidden),
                      Output(rows, kHidden), Output(rows, 3 * kHidden), Output(rows, kInner)};
    std::vector<int32_t> every(rows);
    for (int r = 0; r < rows; ++r) every[r] = r;
    const IndexArray all = Ids(every);
    const auto run = [&](const std::function<void()>& done) {
      backend().GatherRows(start.device(), all.device(), a.hidden.device());
      Run(a, done);
    };
    run([&] { ASSERT_TRUE(backend().Synchronize().ok()); });
    const std::vector<float> expected = a.hidden.Read();
    for (float value : expected) ASSERT_TRUE(std::isfinite(value));
    for (int repeat = 0; repeat < repeats; ++repeat) {
      run([] {});
      ASSERT_EQ(a.hidden.Read(), expected) << rows << " rows";
    }
    const uint64_t key = static_cast<uint64_t>(rows) | static_cast<uint64_t>(dtype()) << 8;
    for (int repeat = 0; repeat < repeats; ++repeat) {  // recorded from the second on
      backend().Replay(key, [&] { run([] {}); });
      ASSERT_EQ(a.hidden.Read(), expected) << rows << " rows, recorded";
    }
  }
}

}  // namespace
}  // namespace beamline
