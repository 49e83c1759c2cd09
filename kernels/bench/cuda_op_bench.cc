// Times the operators on a GPU at the sizes of docs/design's targets and prints one line each:
// microseconds, and the part of the arithmetic or of the memory traffic that decides.
//
//   cuda_op_bench [results.json]
//
// Times are medians over rounds of back-to-back calls, synchronised once a round: what an operator
// costs inside a step. Inputs rotate through more memory than the L2 cache holds. Long because
// every operator has its case here.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "kernels/check.h"
#include "kernels/cuda_loader.h"

namespace beamline {
namespace {

constexpr double kRoundSeconds = 0.02;
constexpr int kNumRounds = 5;
constexpr size_t kRotationBytes = size_t{192} << 20;

struct Line {
  std::string name;
  double microseconds = 0;
  double tera_flops = 0;
  double giga_bytes = 0;
};

class Bench {
 public:
  explicit Bench(Backend& backend) : backend_(backend) {}

  // Random device memory. 16-bit types get numbers in [-1, 1) as well.
  void* Random(size_t bytes, DType dtype) {
    const size_t element = SizeOf(dtype);
    std::vector<uint8_t> host(std::min<size_t>(bytes, size_t{8} << 20));
    std::uniform_real_distribution<float> uniform(-1.0f, 1.0f);
    for (size_t i = 0; i + element <= host.size(); i += element) {
      const float value = uniform(random_);
      uint32_t bits = 0;
      std::memcpy(&bits, &value, sizeof(bits));
      if (dtype == DType::kBFloat16) bits >>= 16;
      if (dtype == DType::kFloat16) {
        const auto half = static_cast<_Float16>(value);
        std::memcpy(&bits, &half, sizeof(half));
      }
      std::memcpy(host.data() + i, &bits, element);
    }
    auto buffer = backend_.Allocate(bytes);
    BEAMLINE_CHECK(buffer.ok());
    char* const data = static_cast<char*>((*buffer)->data());
    for (size_t done = 0; done < bytes; done += host.size()) {
      backend_.CopyToDevice(host.data(), data + done, std::min(host.size(), bytes - done));
    }
    buffers_.push_back(*std::move(buffer));
    return data;
  }
  Tensor RandomTensor(std::initializer_list<int64_t> shape, DType dtype) {
    Tensor tensor(nullptr, dtype, shape);
    tensor.data = Random(static_cast<size_t>(tensor.num_elements()) * SizeOf(dtype), dtype);
    return tensor;
  }
  const int32_t* Ids(const std::vector<int32_t>& values) {
    auto buffer = backend_.Allocate(values.size() * sizeof(int32_t));
    BEAMLINE_CHECK(buffer.ok());
    backend_.CopyToDevice(values.data(), (*buffer)->data(), values.size() * sizeof(int32_t));
    buffers_.push_back(*std::move(buffer));
    return static_cast<const int32_t*>(buffers_.back()->data());
  }
  std::unique_ptr<PackedWeight> Weight(int64_t out_features, int64_t in_features, DType dtype) {
    std::vector<float> values(out_features * in_features);
    for (float& value : values) value = std::uniform_real_distribution<float>(-1, 1)(random_);
    const HostMatrix part = {.data = values.data(), .rows = out_features, .cols = in_features};
    auto weight = backend_.PackWeight({&part, 1}, dtype);
    BEAMLINE_CHECK(weight.ok());
    return *std::move(weight);
  }
  void Clear() { buffers_.clear(); }

  // Times run(i), i counting up, and records a line.
  void Time(const std::string& name, double flops, double bytes,
            const std::function<void(int)>& run) {
    int i = 0;
    const auto round = [&](int calls) {
      const auto begin = std::chrono::steady_clock::now();
      for (int call = 0; call < calls; ++call) run(i++);
      BEAMLINE_CHECK(backend_.Synchronize().ok());
      return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    };
    round(3);
    const double estimate = round(5) / 5;
    const int calls = std::clamp(static_cast<int>(kRoundSeconds / estimate), 2, 2000);
    std::vector<double> seconds;
    for (int r = 0; r < kNumRounds; ++r) seconds.push_back(round(calls) / calls);
    std::sort(seconds.begin(), seconds.end());
    const double median = seconds[kNumRounds / 2];
    lines_.push_back({name, median * 1e6, flops / median * 1e-12, bytes / median * 1e-9});
    fmt::print("{:<58} {:>10.1f} us {:>8.1f} TFLOP/s {:>8.0f} GB/s\n", name, median * 1e6,
               lines_.back().tera_flops, lines_.back().giga_bytes);
    std::fflush(stdout);
  }
  Backend& backend() { return backend_; }
  const std::vector<Line>& lines() const { return lines_; }

 private:
  Backend& backend_;
  std::mt19937 random_{7};
  std::vector<std::unique_ptr<Buffer>> buffers_;
  std::vector<Line> lines_;
};

void TimeMatMul(Bench& bench, int64_t rows, int64_t in_features, int64_t out_features, DType dtype,
                Activation activation, DType y_dtype, const char* label) {
  const size_t weight_bytes = static_cast<size_t>(in_features * out_features) * SizeOf(dtype);
  const int copies = static_cast<int>(std::clamp<size_t>(kRotationBytes / weight_bytes, 1, 8));
  std::vector<std::unique_ptr<PackedWeight>> weights;
  for (int i = 0; i < copies; ++i)
    weights.push_back(bench.Weight(out_features, in_features, dtype));
  MatMulParams params;
  params.x = bench.RandomTensor({rows, in_features}, dtype);
  params.bias = bench.RandomTensor({1, out_features}, dtype);
  params.activation = activation;
  // Logits lie in padded rows, as the engine plans them.
  const bool logits = y_dtype != dtype;
  const int64_t stride = logits ? (out_features + 63) / 64 * 64 : out_features;
  params.y = bench.RandomTensor({rows, stride}, y_dtype).Columns(0, out_features);
  params.y_owns_padding = logits;
  if (logits) params.bias = Tensor();
  const double bytes = static_cast<double>(weight_bytes) +
                       static_cast<double>(rows * in_features) * SizeOf(dtype) +
                       static_cast<double>(rows * out_features) * SizeOf(y_dtype);
  bench.Time(fmt::format("matmul {} {}: {} x {} x {}", label, Name(dtype), rows, in_features,
                         out_features),
             2.0 * rows * in_features * out_features, bytes, [&](int i) {
               params.weight = weights[i % copies].get();
               bench.backend().MatMul(params);
             });
  bench.Clear();
}

// GPT-2's queries, keys and values, into the cache.
void TimeHeads(Bench& bench, int64_t rows, bool rotate) {
  const DType dtype = DType::kBFloat16;
  constexpr int kHidden = 768, kHeads = 12, kHeadDim = 64, kBlockSize = 16, kBlocks = 64;
  constexpr int kCopies = 16;
  std::vector<std::unique_ptr<PackedWeight>> weights;
  for (int i = 0; i < kCopies; ++i) weights.push_back(bench.Weight(3 * kHidden, kHidden, dtype));
  KvLayer cache;
  for (Tensor* tensor : {&cache.keys, &cache.values}) {
    *tensor = bench.RandomTensor({kBlocks, kHeads, kBlockSize, kHeadDim}, dtype);
  }
  const Rotary rotary = {.cos_sin = bench.RandomTensor({1024, kHeadDim}, DType::kFloat32)};
  std::vector<int32_t> slots(rows);
  for (int64_t r = 0; r < rows; ++r) slots[r] = static_cast<int32_t>(r * 37 % (kBlocks * 16));
  ProjectHeadsParams params;
  params.x = bench.RandomTensor({rows, kHidden}, dtype);
  params.bias = bench.RandomTensor({1, 3 * kHidden}, dtype);
  params.num_heads = params.num_kv_heads = kHeads;
  params.head_dim = kHeadDim;
  params.query_scale = 0.125f;
  params.query = bench.RandomTensor({rows, kHidden}, dtype);
  params.workspace = bench.RandomTensor({rows, 3 * kHidden}, dtype);
  params.cache = &cache;
  params.slots = params.positions = bench.Ids(slots);
  if (rotate) params.rotary = &rotary;
  const double weight_bytes = 3.0 * kHidden * kHidden * 2;
  bench.Time(fmt::format("project heads bfloat16{}: {} x 768, 12 heads of 64",
                         rotate ? ", rotary" : "", rows),
             2.0 * rows * 3 * kHidden * kHidden, weight_bytes + 16.0 * rows * kHidden, [&](int i) {
               params.weight = weights[i % kCopies].get();
               bench.backend().ProjectHeads(params);
             });
  bench.Clear();
}

void TimePackedAttention(Bench& bench, int batch, int heads, int length, int head_dim, bool causal,
                         DType dtype = DType::kBFloat16) {
  const int64_t tokens = int64_t{batch} * length;
  AttentionParams params;
  params.num_heads = params.num_kv_heads = heads;
  params.head_dim = head_dim;
  params.num_sequences = batch;
  params.max_query_length = length;
  params.causal = causal;
  for (Tensor* tensor : {&params.query, &params.key, &params.value, &params.output}) {
    *tensor = bench.RandomTensor({tokens, int64_t{heads} * head_dim}, dtype);
  }
  std::vector<int32_t> offsets(batch + 1);
  for (int s = 0; s <= batch; ++s) offsets[s] = s * length;
  params.query_offsets = bench.Ids(offsets);
  const double flops = 4.0 * tokens * heads * head_dim * length * (causal ? 0.5 : 1.0);
  bench.Time(fmt::format("attention prefill {}: B{} H{} T{} D{}{}", Name(dtype), batch, heads,
                         length, head_dim, causal ? " causal" : ""),
             flops, 4.0 * static_cast<double>(SizeOf(dtype)) * tokens * heads * head_dim,
             [&](int) { bench.backend().Attention(params); });
  bench.Clear();
}

void TimeDecodeAttention(Bench& bench, int batch, int heads, int kv_heads, int context,
                         int head_dim) {
  const DType dtype = DType::kBFloat16;
  constexpr int kBlockSize = 16;
  const int blocks = context / kBlockSize;
  const size_t layer_bytes = size_t{2} * batch * context * kv_heads * head_dim * SizeOf(dtype);
  const int copies = static_cast<int>(std::clamp<size_t>(kRotationBytes / layer_bytes, 1, 8));
  AttentionParams params;
  params.num_heads = heads;
  params.num_kv_heads = kv_heads;
  params.head_dim = head_dim;
  params.num_sequences = batch;
  params.max_query_length = 1;
  params.causal = true;
  params.query = bench.RandomTensor({batch, int64_t{heads} * head_dim}, dtype);
  params.output = bench.RandomTensor({batch, int64_t{heads} * head_dim}, dtype);
  std::vector<KvLayer> layers(copies);
  for (KvLayer& layer : layers) {
    layer.keys = bench.RandomTensor({batch * blocks, kv_heads, kBlockSize, head_dim}, dtype);
    layer.values = bench.RandomTensor({batch * blocks, kv_heads, kBlockSize, head_dim}, dtype);
  }
  std::vector<int32_t> tables(batch * blocks), offsets(batch + 1);
  std::iota(tables.begin(), tables.end(), 0);
  std::shuffle(tables.begin(), tables.end(), std::mt19937(5));
  std::iota(offsets.begin(), offsets.end(), 0);
  params.block_tables = bench.Ids(tables);
  params.max_blocks = blocks;
  params.query_offsets = bench.Ids(offsets);
  params.context_lengths = bench.Ids(std::vector<int32_t>(batch, context));
  params.max_context_length = context;
  bench.Time(fmt::format("attention decode bfloat16: B{} H{}/{} context {} D{}", batch, heads,
                         kv_heads, context, head_dim),
             4.0 * batch * heads * head_dim * context, static_cast<double>(layer_bytes),
             [&](int i) {
               params.cache = &layers[i % copies];
               bench.backend().Attention(params);
             });
  bench.Clear();
}

void TimeNorm(Bench& bench, int64_t rows, int64_t hidden_size) {
  const DType dtype = DType::kBFloat16;
  NormParams params;
  params.x = bench.RandomTensor({rows, hidden_size}, dtype);
  params.residual = bench.RandomTensor({rows, hidden_size}, dtype);
  params.gain = bench.RandomTensor({1, hidden_size}, dtype);
  params.bias = bench.RandomTensor({1, hidden_size}, dtype);
  params.y = bench.RandomTensor({rows, hidden_size}, dtype);
  bench.Time(fmt::format("layer norm + residual bfloat16: {} x {}", rows, hidden_size), 0,
             6.0 * rows * hidden_size, [&](int) { bench.backend().Norm(params); });
  bench.Clear();
}

void TimeEmbed(Bench& bench, int64_t rows, int64_t hidden_size, bool normalize) {
  const DType dtype = DType::kBFloat16;
  constexpr int64_t kVocabulary = 30000, kPositions = 512;
  std::vector<int32_t> ids(rows), positions(rows);
  for (int64_t r = 0; r < rows; ++r) {
    ids[r] = static_cast<int32_t>(r * 7919 % kVocabulary);
    positions[r] = static_cast<int32_t>(r % kPositions);
  }
  EmbedParams params;
  params.token_ids = bench.Ids(ids);
  params.positions = bench.Ids(positions);
  params.num_tokens = rows;
  params.token_table = bench.RandomTensor({kVocabulary, hidden_size}, dtype);
  params.position_table = bench.RandomTensor({kPositions, hidden_size}, dtype);
  if (normalize) params.norm.gain = bench.RandomTensor({1, hidden_size}, dtype);
  if (normalize) params.norm.bias = bench.RandomTensor({1, hidden_size}, dtype);
  params.output = bench.RandomTensor({rows, hidden_size}, dtype);
  bench.Time(
      fmt::format("embed{} bfloat16: {} x {}", normalize ? " + norm" : "", rows, hidden_size), 0,
      6.0 * rows * hidden_size, [&](int) { bench.backend().Embed(params); });
  bench.Clear();
}

void TimeCandidates(Bench& bench, int64_t rows, int64_t vocab_size, int count, bool normalize) {
  TopCandidatesParams params;
  const int64_t stride = (vocab_size + 63) / 64 * 64;
  params.logits = bench.RandomTensor({rows, stride}, DType::kFloat32).Columns(0, vocab_size);
  const std::vector<uint8_t> normalize_first(rows, normalize ? 1 : 0);
  const std::vector<int32_t> counts(rows, count);
  params.normalize_first = normalize_first;
  params.counts = counts;
  params.max_count = count;
  params.values = static_cast<float*>(bench.Random(rows * count * 4, DType::kFloat32));
  params.raw_values = static_cast<float*>(bench.Random(rows * count * 4, DType::kFloat32));
  params.ids = static_cast<int32_t*>(bench.Random(rows * count * 4, DType::kFloat32));
  params.log_normalizers = static_cast<float*>(bench.Random(rows * 4, DType::kFloat32));
  bench.Time(fmt::format("top candidates: {} x {}, {}{}", rows, vocab_size, count,
                         normalize ? ", normalised" : ""),
             0, 4.0 * rows * vocab_size, [&](int) { bench.backend().TopCandidates(params); });
  bench.Clear();
}

void TimeSample(Bench& bench, int64_t rows, int64_t vocab_size, SampleRow options,
                const char* label) {
  SampleParams params;
  params.logits = bench.RandomTensor({rows, vocab_size}, DType::kFloat32);
  std::vector<SampleRow> samples(rows, options);
  for (int64_t r = 0; r < rows; ++r) samples[r].row = static_cast<int32_t>(r);
  params.rows = samples;
  params.ids = static_cast<int32_t*>(bench.Random(rows * 4, DType::kFloat32));
  bench.Time(fmt::format("sample {}: {} x {}", label, rows, vocab_size), 0, 4.0 * rows * vocab_size,
             [&](int) { bench.backend().Sample(params); });
  bench.Clear();
}

void TimeAll(Bench& bench) {
  const DType bf16 = DType::kBFloat16, f16 = DType::kFloat16, f32 = DType::kFloat32;
  TimeMatMul(bench, 8192, 8192, 8192, bf16, Activation::kNone, bf16, "square");
  for (Activation activation : {Activation::kNone, Activation::kRelu, Activation::kGelu}) {
    const char* label = activation == Activation::kNone   ? "bias"
                        : activation == Activation::kRelu ? "bias relu"
                                                          : "bias gelu";
    TimeMatMul(bench, 32768, 768, 3072, f16, activation, f16, label);
  }
  TimeMatMul(bench, 12288, 768, 50304, bf16, Activation::kNone, bf16, "bias");
  TimeMatMul(bench, 12288, 768, 50257, bf16, Activation::kNone, bf16, "bias");
  for (int64_t rows : {1, 4, 8, 16, 32, 128}) {
    TimeMatMul(bench, rows, 768, 2304, bf16, Activation::kNone, bf16, "bias");
    TimeMatMul(bench, rows, 768, 3072, bf16, Activation::kGeluTanh, bf16, "bias gelu_tanh");
    TimeMatMul(bench, rows, 3072, 768, bf16, Activation::kNone, bf16, "bias");
    TimeMatMul(bench, rows, 768, 50257, bf16, Activation::kNone, f32, "logits");
    TimeMatMul(bench, rows, 4096, 14336, bf16, Activation::kNone, bf16, "bias");
  }
  for (int64_t rows : {1, 8, 64, 2048}) {
    TimeMatMul(bench, rows, 512, 2048, f32, Activation::kRelu, f32, "bias relu");
  }
  for (int64_t rows : {1, 4, 8, 16, 32}) {
    for (bool rotate : {false, true}) TimeHeads(bench, rows, rotate);
  }
  TimePackedAttention(bench, 4, 16, 4096, 64, true);
  TimePackedAttention(bench, 4, 32, 4096, 128, true);
  TimePackedAttention(bench, 4, 32, 4096, 128, false);
  TimePackedAttention(bench, 12, 12, 1024, 64, true);
  TimePackedAttention(bench, 32, 12, 128, 64, false);
  for (int head_dim : {32, 80, 96, 256}) {
    TimePackedAttention(bench, 12, 12, 1024, head_dim, true);
    TimePackedAttention(bench, 32, 12, 128, head_dim, false);
  }
  for (int head_dim : {32, 64, 128}) {
    TimePackedAttention(bench, 12, 12, 1024, head_dim, true, f32);
    TimePackedAttention(bench, 32, 12, 128, head_dim, false, f32);
  }
  TimePackedAttention(bench, 1, 12, 128, 64, false, f32);
  TimeDecodeAttention(bench, 1, 64, 8, 2048, 128);
  TimeDecodeAttention(bench, 1, 64, 8, 8192, 128);
  TimeDecodeAttention(bench, 32, 64, 8, 2048, 128);
  TimeDecodeAttention(bench, 32, 64, 8, 8192, 128);
  TimeDecodeAttention(bench, 1, 12, 12, 512, 64);
  TimeDecodeAttention(bench, 32, 12, 12, 512, 64);
  TimeDecodeAttention(bench, 256, 8, 8, 64, 64);
  for (int head_dim : {32, 80, 96, 256}) TimeDecodeAttention(bench, 32, 12, 12, 512, head_dim);
  TimeNorm(bench, 16384, 4096);
  TimeNorm(bench, 32768, 768);
  TimeNorm(bench, 32, 768);
  for (int64_t rows : {1, 32, 4096}) {
    for (bool normalize : {false, true}) TimeEmbed(bench, rows, 768, normalize);
  }
  TimeNorm(bench, 1, 768);
  TimeNorm(bench, 4096, 768);
  TimeCandidates(bench, 1, 50257, 1, false);
  for (int64_t rows : {1, 4, 64}) {
    for (int64_t vocab_size : {32000, 50257}) {
      for (bool normalize : {false, true}) TimeCandidates(bench, rows, vocab_size, 8, normalize);
    }
  }
  TimeCandidates(bench, 32, 50257, 8, false);
  TimeCandidates(bench, 256, 30000, 8, true);
  TimeCandidates(bench, 32, 50257, 130, false);
  TimeSample(bench, 32, 50257, {}, "plain");
  TimeSample(bench, 32, 50257, {.top_k = 50, .top_p = 0.9f}, "top-k, top-p");
}

int Main(int argc, char** argv) {
  auto backend = MakeCudaBackend(0);
  if (!backend.ok()) {
    fmt::print(stderr, "{}\n", backend.status().ToString());
    return 1;
  }
  fmt::print("{}: {}\n", (*backend)->Name(), (*backend)->Description());
  Bench bench(**backend);
  TimeAll(bench);
  if (argc < 2) return 0;
  std::FILE* file = std::fopen(argv[1], "w");
  BEAMLINE_CHECK(file != nullptr);
  fmt::print(file, "{{\"device\": \"{}\", \"lines\": [\n", (*backend)->Description());
  for (size_t i = 0; i < bench.lines().size(); ++i) {
    const Line& line = bench.lines()[i];
    fmt::print(file,
               "{{\"name\": \"{}\", \"us\": {:.3f}, \"tflops\": {:.2f}, \"gbs\": {:.1f}}}{}\n",
               line.name, line.microseconds, line.tera_flops, line.giga_bytes,
               i + 1 < bench.lines().size() ? "," : "");
  }
  fmt::print(file, "]}}\n");
  return std::fclose(file) == 0 ? 0 : 1;
}

}  // namespace
}  // namespace beamline

int main(int argc, char** argv) { return beamline::Main(argc, argv); }
