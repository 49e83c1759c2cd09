// Kernels that start before the one ahead of them is done (launch.cuh) see all of its results: a
// chain of small operators gives the bits that it gives with a wait behind each of them.
#include <functional>

#include "tests/gpu/half_op_fixture.h"
#include "tests/kernels/small_cases.h"

namespace beamline::overlap_test {
namespace {

constexpr int kLayers = 6, kHidden = 256, kInner = 520, kHeadDim = 32;

class OverlapTest : public HalfOpTest {
 protected:
  struct Layer {
    Weight heads, in, out;
    TypedArray gain, bias;
  };

  struct Arrays {
    TypedArray hidden, other, attended, keys, values, workspace, inner;
  };

  static ProjectHeadsParams Heads(const Layer& layer, const Arrays& a) {
    ProjectHeadsParams heads;
    heads.weight = layer.heads.packed.get();
    heads.num_heads = heads.num_kv_heads = kHidden / kHeadDim;
    heads.head_dim = kHeadDim;
    heads.key = a.keys.device();
    heads.value = a.values.device();
    heads.workspace = a.workspace.device();
    return heads;
  }

  void MakeLayers() {
    for (int i = 0; i < kLayers; ++i) {
      layers_.push_back({RandomWeight(3 * kHidden, kHidden), RandomWeight(kInner, kHidden),
                         RandomWeight(kHidden, kInner), Random(1, kHidden), Random(1, kHidden)});
    }
  }

  // As Run; heads and feed forward norm their input themselves, and the feed forward's residual is
  // what it normed.
  void RunFused(const Arrays& a, const std::function<void()>& done) {
    for (const Layer& layer : layers_) {
      const FusedNorm norm = {.gain = layer.gain.device_vector(),
                              .bias = layer.bias.device_vector()};
      ProjectHeadsParams heads = Heads(layer, a);
      heads.x = a.hidden.device();
      heads.input_norm = norm;
      heads.normed = a.other.device();
      heads.query = a.attended.device();
      backend().ProjectHeads(heads);
      done();
      backend().MatMul({.x = a.attended.device(),
                        .input_norm = norm,
                        .normed = a.other.device(),
                        .weight = layer.in.packed.get(),
                        .activation = Activation::kGelu,
                        .y = a.inner.device()});
      done();
      backend().MatMul({.x = a.inner.device(),
                        .weight = layer.out.packed.get(),
                        .residual = a.other.device(),
                        .y = a.hidden.device()});
      done();
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
      ProjectHeadsParams heads = Heads(layer, a);
      heads.x = a.other.device();
      heads.query = a.hidden.device();
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
    const Arrays a = {Output(rows, kHidden), Output(rows, kHidden), Output(rows, kHidden),
                      Output(rows, kHidden), Output(rows, kHidden), Output(rows, 3 * kHidden),
                      Output(rows, kInner)};
    std::vector<int32_t> every(rows);
    for (int r = 0; r < rows; ++r) every[r] = r;
    const IndexArray all = Ids(every);
    for (bool fused : {false, true}) {
      const auto run = [&](const std::function<void()>& done) {
        backend().GatherRows({start.device(), all.device(), a.hidden.device()});
        fused ? RunFused(a, done) : Run(a, done);
      };
      run([&] { ASSERT_TRUE(backend().Synchronize().ok()); });
      const std::vector<float> expected = a.hidden.Read();
      for (float value : expected) ASSERT_TRUE(std::isfinite(value));
      for (int repeat = 0; repeat < repeats; ++repeat) {
        run([] {});
        ASSERT_EQ(a.hidden.Read(), expected) << rows << " rows, fused " << fused;
      }
      const uint64_t key = static_cast<uint64_t>(rows) | static_cast<uint64_t>(dtype()) << 8 |
                           static_cast<uint64_t>(fused) << 16;
      for (int repeat = 0; repeat < repeats; ++repeat) {  // recorded from the second on
        backend().Replay(key, [&] { run([] {}); });
        ASSERT_EQ(a.hidden.Read(), expected) << rows << " rows, fused " << fused << ", recorded";
      }
    }
  }
}

}  // namespace
}  // namespace beamline::overlap_test
