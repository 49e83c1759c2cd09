// Times the operators of a small decoder's step on one thread. Weights and caches exceed the L2
// cache. Reports the time per row of matmuls, of storing keys and values, and of attention, by the
// number of rows.
#include <chrono>
#include <string>
#include <utility>

#include "base/math.h"
#include "bench/kernels/bench_arrays.h"

namespace beamline::bench {
namespace {

constexpr int kHeadDim = 64;
constexpr int kSlots = 16;  // per block
constexpr int kLongest = 80;
constexpr int kMaxBlocks = CeilDiv(kLongest, kSlots);
constexpr float kWeightScale = 0.05f;

Backend& OneThread() {
  static const std::unique_ptr<Backend> backend = MakeCpuBackend({.num_threads = 1});
  return *backend;
}

std::unique_ptr<PackedWeight> PackRandom(int64_t out_features, int64_t in_features) {
  Matrix values(out_features, in_features, kWeightScale);
  const HostMatrix matrix = {.data = values.data(), .rows = out_features, .cols = in_features};
  auto packed = OneThread().PackWeight({&matrix, 1}, DType::kFloat32);
  BEAMLINE_CHECK(packed.ok());
  return *std::move(packed);
}

struct Sizes {
  int num_layers = 0;
  int num_heads = 0;
  int vocab = 0;
  int hidden() const { return num_heads * kHeadDim; }
};

struct Layer {
  Layer(const Sizes& sizes, int64_t num_blocks)
      : heads(PackRandom(3 * sizes.hidden(), sizes.hidden())),
        output(PackRandom(sizes.hidden(), sizes.hidden())),
        up(PackRandom(4 * sizes.hidden(), sizes.hidden())),
        down(PackRandom(sizes.hidden(), 4 * sizes.hidden())),
        keys(num_blocks * sizes.num_heads * kSlots, kHeadDim),
        values(num_blocks * sizes.num_heads * kSlots, kHeadDim) {
    const auto paged = [&](Matrix& matrix) {
      return Tensor(matrix.data(), DType::kFloat32,
                    {num_blocks, sizes.num_heads, kSlots, kHeadDim});
    };
    cache = {.keys = paged(keys), .values = paged(values), .key_layout = OneThread().key_layout()};
  }

  const std::unique_ptr<PackedWeight> heads, output, up, down;
  Matrix keys, values;
  KvLayer cache;
};

// A step of `num_rows` sequences with one token each and context lengths of 10 to 80.
class Step {
 public:
  Step(int num_rows, const Sizes& sizes)
      : num_rows_(num_rows),
        num_heads_(sizes.num_heads),
        head_(PackRandom(sizes.vocab, sizes.hidden())),
        hidden_(num_rows, sizes.hidden()),
        query_(num_rows, sizes.hidden()),
        workspace_(num_rows, 3 * sizes.hidden()),
        inner_(num_rows, 4 * sizes.hidden()),
        logits_(num_rows, sizes.vocab) {
    for (int i = 0; i < sizes.num_layers; ++i) {
      layers_.push_back(std::make_unique<Layer>(sizes, int64_t{num_rows} * kMaxBlocks));
    }
    blocks_.resize(static_cast<size_t>(num_rows) * kMaxBlocks);
    std::iota(blocks_.begin(), blocks_.end(), 0);
    std::shuffle(blocks_.begin(), blocks_.end(), std::mt19937(1));
    std::mt19937 random(2);
    for (int s = 0; s < num_rows; ++s) {
      const int context = std::uniform_int_distribution(10, kLongest)(random);
      contexts_.push_back(context);
      const int32_t block = blocks_[s * kMaxBlocks + (context - 1) / kSlots];
      slots_.push_back(block * kSlots + (context - 1) % kSlots);
    }
    offsets_.resize(num_rows + 1);
    std::iota(offsets_.begin(), offsets_.end(), 0);
  }

  struct Seconds {
    double heads = 0, attention = 0, products = 0, logits = 0;
  };
  void Compute(Seconds& seconds) {
    for (const auto& layer : layers_) {
      seconds.heads += Time([&] { StoreHeads(*layer); });
      seconds.attention += Time([&] { Attend(*layer); });
      seconds.products += Time([&] {
        MatMul(query_, *layer->output, Activation::kNone, hidden_);
        MatMul(hidden_, *layer->up, Activation::kGeluTanh, inner_);
        MatMul(inner_, *layer->down, Activation::kNone, hidden_);
      });
    }
    seconds.logits += Time([&] { MatMul(hidden_, *head_, Activation::kNone, logits_); });
  }

 private:
  template <typename Work>
  static double Time(const Work& work) {
    const auto start = std::chrono::steady_clock::now();
    work();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

  static void MatMul(Matrix& x, const PackedWeight& weight, Activation activation, Matrix& y) {
    MatMulParams params;
    params.x = x.tensor();
    params.weight = &weight;
    params.activation = activation;
    params.y = y.tensor();
    OneThread().MatMul(params);
  }

  void StoreHeads(const Layer& layer) {
    ProjectHeadsParams params;
    params.x = hidden_.tensor();
    params.weight = layer.heads.get();
    params.num_heads = params.num_kv_heads = num_heads_;
    params.head_dim = kHeadDim;
    params.query = query_.tensor();
    params.cache = &layer.cache;
    params.slots = slots_.data();
    params.workspace = workspace_.tensor();
    OneThread().ProjectHeads(params);
  }

  void Attend(const Layer& layer) {
    AttentionParams params;
    params.num_heads = params.num_kv_heads = num_heads_;
    params.head_dim = kHeadDim;
    params.query = query_.tensor();
    params.output = query_.tensor();
    params.num_sequences = num_rows_;
    params.query_offsets = offsets_.data();
    params.max_query_length = 1;
    params.cache = &layer.cache;
    params.block_tables = blocks_.data();
    params.max_blocks = kMaxBlocks;
    params.context_lengths = contexts_.data();
    params.max_context_length = kLongest;
    params.causal = true;
    OneThread().Attention(params);
  }

  const int num_rows_, num_heads_;
  std::vector<std::unique_ptr<Layer>> layers_;
  const std::unique_ptr<PackedWeight> head_;
  Matrix hidden_, query_, workspace_, inner_, logits_;
  std::vector<int32_t> blocks_, contexts_, slots_, offsets_;
};

void RunSteps(benchmark::State& state, const Sizes& sizes) {
  const auto num_rows = static_cast<int>(state.range(0));
  Step step(num_rows, sizes);
  Step::Seconds seconds;
  for (auto _ : state) step.Compute(seconds);
  const auto of_a_row = [&](double all) {
    return 1e6 * all / (static_cast<double>(state.iterations()) * num_rows);
  };
  state.counters["heads_us"] = of_a_row(seconds.heads);
  state.counters["attention_us"] = of_a_row(seconds.attention);
  state.counters["products_us"] = of_a_row(seconds.products);
  state.counters["logits_us"] = of_a_row(seconds.logits);
  state.counters["row_us"] =
      of_a_row(seconds.heads + seconds.attention + seconds.products + seconds.logits);
}

void Widths(benchmark::internal::Benchmark* benchmark) {
  benchmark->UseRealTime()->Unit(benchmark::kMicrosecond)->ArgName("rows");
  for (const int rows : {1, 4, 8, 12, 16, 24, 32, 48, 64}) benchmark->Arg(rows);
}

// The demo model write-en.
void DecoderStep(benchmark::State& state) { RunSteps(state, {5, 3, 6000}); }
BENCHMARK(DecoderStep)->Apply(Widths);

// Four of GPT-2's layers, with its vocabulary.
void LargerDecoderStep(benchmark::State& state) { RunSteps(state, {4, 12, 50257}); }
BENCHMARK(LargerDecoderStep)->Apply(Widths);

}  // namespace
}  // namespace beamline::bench
