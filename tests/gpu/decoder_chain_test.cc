// What kernels read before their turn (kernels/cuda/device/launch.cuh): decoding steps whose
// launches overlap give the bits of steps that are done before the next launch. Attention reads
// tables and earlier tokens' keys early, products their weights.
#include <functional>
#include <numeric>

#include "tests/gpu/half_op_fixture.h"
#include "tests/kernels/small_cases.h"

namespace beamline::decoder_chain_test {
namespace {

constexpr int kHeads = 4, kHeadDim = 64, kHidden = kHeads * kHeadDim, kInner = 3 * kHidden;
constexpr int kLayers = 3, kSteps = 4, kBlockSize = 16;

class DecoderChainTest : public HalfOpTest {
 protected:
  struct Layer {
    Weight heads, attention_out, in, out;
    TypedArray gain, bias, keys, values;

    KvLayer Cache(int64_t num_blocks) const {
      const auto pages = [&](const TypedArray& rows) {
        return Tensor(rows.device().data, rows.device().dtype,
                      {num_blocks, kHeads, kBlockSize, kHeadDim});
      };
      return {pages(keys), pages(values)};
    }
  };

  struct Arrays {
    TypedArray hidden, normed, query, attended, workspace, inner;
  };

  // A step's arrays, which lie where those of the step before lay.
  struct Indices {
    int32_t *context_lengths, *slots, *query_offsets, *tables, *every;
  };

  void MakeLayers(int64_t num_blocks) {
    layers_.clear();
    const int64_t rows = num_blocks * kHeads * kBlockSize;
    for (int i = 0; i < kLayers; ++i) {
      layers_.push_back({RandomWeight(3 * kHidden, kHidden), RandomWeight(kHidden, kHidden),
                         RandomWeight(kInner, kHidden), RandomWeight(kHidden, kInner),
                         Random(1, kHidden), Random(1, kHidden), Random(rows, kHeadDim),
                         Random(rows, kHeadDim)});
    }
  }

  // One token of each sequence through all layers; done() behind each launch.
  void Step(const Arrays& a, const Indices& indices, int num_sequences, int context, int max_blocks,
            int window, const TypedArray& start, const std::function<void()>& done) {
    backend().GatherRows({start.device(), indices.every, a.hidden.device()});
    done();
    for (const Layer& layer : layers_) {
      const KvLayer cache = layer.Cache(int64_t{num_sequences} * max_blocks);
      const auto norm = [&] {
        backend().Norm({.x = a.hidden.device(),
                        .gain = layer.gain.device_vector(),
                        .bias = layer.bias.device_vector(),
                        .y = a.normed.device()});
        done();
      };
      norm();
      ProjectHeadsParams heads;
      heads.x = a.normed.device();
      heads.weight = layer.heads.packed.get();
      heads.num_heads = heads.num_kv_heads = kHeads;
      heads.head_dim = kHeadDim;
      heads.query = a.query.device();
      heads.cache = &cache;
      heads.slots = indices.slots;
      heads.workspace = a.workspace.device();
      backend().ProjectHeads(heads);
      done();
      AttentionParams attention;
      attention.query = a.query.device();
      attention.scale = 0.125f;
      attention.num_heads = attention.num_kv_heads = kHeads;
      attention.head_dim = kHeadDim;
      attention.num_sequences = num_sequences;
      attention.query_offsets = indices.query_offsets;
      attention.max_query_length = 1;
      attention.cache = &cache;
      attention.block_tables = indices.tables;
      attention.max_blocks = max_blocks;
      attention.context_lengths = indices.context_lengths;
      attention.max_context_length = context;
      attention.causal = true;
      attention.window = window;
      attention.output = a.attended.device();
      backend().Attention(attention);
      done();
      backend().MatMul({.x = a.attended.device(),
                        .weight = layer.attention_out.packed.get(),
                        .residual = a.hidden.device(),
                        .y = a.hidden.device()});
      done();
      norm();
      backend().MatMul({.x = a.normed.device(),
                        .weight = layer.in.packed.get(),
                        .activation = Activation::kRelu,
                        .y = a.inner.device()});
      done();
      backend().MatMul({.x = a.inner.device(),
                        .weight = layer.out.packed.get(),
                        .residual = a.hidden.device(),
                        .y = a.hidden.device()});
      done();
    }
  }

  // kSteps steps behind `context` tokens. Returns the last hidden states and the last layer's keys.
  std::vector<float> Run(int num_sequences, int context, int window, uint64_t key,
                         const TypedArray& start, bool waits) {
    const int max_blocks = (context + kSteps + kBlockSize - 1) / kBlockSize;
    const Arrays a = {Output(num_sequences, kHidden),     Output(num_sequences, kHidden),
                      Output(num_sequences, kHidden),     Output(num_sequences, kHidden),
                      Output(num_sequences, 3 * kHidden), Output(num_sequences, kInner)};
    std::vector<int32_t> tables(static_cast<size_t>(num_sequences) * max_blocks);
    std::iota(tables.rbegin(), tables.rend(), 0);
    const size_t size = 4 * static_cast<size_t>(num_sequences) + 1 + tables.size();
    const IndexArray array = Ids(std::vector<int32_t>(size));
    auto* const at = const_cast<int32_t*>(array.device());
    const Indices indices = {at, at + num_sequences, at + 2 * num_sequences,
                             at + 3 * num_sequences + 1,
                             at + 3 * num_sequences + 1 + tables.size()};
    for (const Layer& layer : layers_) {
      layer.keys.Upload();
      layer.values.Upload();
    }
    const auto done = [&] {
      if (!waits) return;
      ASSERT_TRUE(backend().Synchronize().ok());
    };
    for (int step = 0; step < kSteps; ++step) {
      std::vector<int32_t> values;
      const int position = context + step;
      values.insert(values.end(), num_sequences, position + 1);
      for (int s = 0; s < num_sequences; ++s) {
        const int32_t block = tables[static_cast<size_t>(s) * max_blocks + position / kBlockSize];
        values.push_back(block * kBlockSize + position % kBlockSize);
      }
      for (int s = 0; s <= num_sequences; ++s) values.push_back(s);
      values.insert(values.end(), tables.begin(), tables.end());
      for (int s = 0; s < num_sequences; ++s) values.push_back(s);
      backend().CopyToDevice(values.data(), at, values.size() * sizeof(int32_t));
      done();
      const auto run = [&] {
        Step(a, indices, num_sequences, context + kSteps, max_blocks, window, start, done);
      };
      // Recorded from the second step on; the arrays of every run are others.
      waits ? run() : backend().Replay(key, run);
    }
    std::vector<float> result = a.hidden.Read();
    const std::vector<float> keys = layers_.back().keys.Read();
    result.insert(result.end(), keys.begin(), keys.end());
    return result;
  }

  std::vector<Layer> layers_;
  uint64_t next_key_ = 0;
};

INSTANTIATE_TEST_SUITE_P(Types, DecoderChainTest,
                         testing::Values(DType::kFloat32, DType::kFloat16, DType::kBFloat16),
                         DTypeName);

TEST_P(DecoderChainTest, OverlappedStepsGiveTheBitsOfSeparateOnes) {
  const int repeats = SmallCases() ? 2 : 10;
  for (int num_sequences : Cases<int>({1, 3, 4, 8}, {1, 4})) {
    for (int context : Cases<int>({1, 14, 29, 61, 126, 300}, {14, 61})) {
      MakeLayers(int64_t{num_sequences} * ((context + kSteps + kBlockSize - 1) / kBlockSize));
      const TypedArray start = Random(num_sequences, kHidden);
      for (int window : {0, 9}) {
        const std::vector<float> expected =
            Run(num_sequences, context, window, 0, start, /*waits=*/true);
        for (float value : expected) ASSERT_TRUE(std::isfinite(value));
        for (int repeat = 0; repeat < repeats; ++repeat) {
          ASSERT_EQ(Run(num_sequences, context, window, ++next_key_, start, /*waits=*/false),
                    expected)
              << num_sequences << " sequences, context " << context << ", window " << window;
        }
      }
    }
  }
}

}  // namespace
}  // namespace beamline::decoder_chain_test
