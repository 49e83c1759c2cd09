// Times the GPU operators at the sizes of well-known models. Prints one line each: microseconds,
// and arithmetic or memory throughput.
//
//   cuda_op_bench [results.json [PATTERN]]      PATTERN: a regex; runs only lines whose name
//   matches
//
// The first time is per call in a CUDA graph, as in serving. The second is per call launched from
// the host, limited by the host's rate if that is slower. Operators that cannot be captured have
// only the second. Times are medians over rounds, synchronized once per round. Inputs rotate
// through more memory than the L2 cache holds. Long because every operator has its case here.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>
#include <numeric>
#include <random>
#include <regex>
#include <string>
#include <tuple>
#include <vector>

#include "base/check.h"
#include "base/math.h"
#include "bench/kernels/experts_bench.h"
#include "bench/kernels/gpu_bench.h"
#include "bench/kernels/prefill_bench.h"
#include "fmt/format.h"
#include "kernels/cuda_loader.h"

namespace beamline {
namespace {

struct Product {
  const char* label;
  int64_t rows, in_features, out_features;
  DType dtype = DType::kBFloat16;
  Activation activation = Activation::kNone;
  DType y_dtype = DType::kBFloat16;
  bool biased = true;
  bool padded = false;  // rows of y and the bias are padded to whole tiles, as for logits
  enum { kNoNorm, kNormBefore, kNormInside } norm = kNoNorm;  // of x
  NormKind kind = NormKind::kLayerNorm;                       // the kind of that norm
  bool gated = false;
  bool residual = false;
  size_t most_weights = 8;  // weights to rotate through; fewer if they fill kRotationBytes
};

void TimeMatMul(Bench& bench, const Product& product) {
  const auto& [label, rows, in_features, out_features, dtype, activation, y_dtype, biased, padded,
               norms, kind, gated, residual, most_weights] = product;
  const std::string name =
      fmt::format("matmul {}{} {}: {} x {} x {}", norms == Product::kNormInside ? "with its " : "",
                  label, Name(dtype), rows, in_features, out_features);
  if (!bench.Wants(name)) return;
  const size_t weight_bytes = static_cast<size_t>(in_features * out_features) * SizeOf(dtype);
  const int copies =
      static_cast<int>(std::clamp<size_t>(kRotationBytes / weight_bytes, 1, most_weights));
  std::vector<std::unique_ptr<PackedWeight>> weights;
  for (int i = 0; i < copies; ++i) {
    weights.push_back(bench.Weight(out_features, in_features, dtype));
  }
  const int64_t stride = padded ? RoundUp(out_features, 64) : out_features;
  MatMulParams params;
  params.x = bench.RandomTensor({rows, in_features}, dtype);
  if (biased) params.bias = bench.RandomTensor({1, stride}, y_dtype).Columns(0, out_features);
  params.activation = activation;
  params.gated = gated;
  params.y = bench.RandomTensor({rows, stride}, y_dtype)
                 .Columns(0, gated ? out_features / 2 : out_features);
  params.y_owns_padding = padded;
  if (residual) params.residual = bench.RandomTensor({rows, stride}, y_dtype);
  NormParams norm;
  if (norms != Product::kNoNorm) {
    norm.gain = params.input_norm.gain = bench.RandomTensor({1, in_features}, dtype);
    if (kind == NormKind::kLayerNorm) {
      norm.bias = params.input_norm.bias = bench.RandomTensor({1, in_features}, dtype);
    }
    norm.kind = params.input_norm.kind = kind;
    norm.y = params.normed = bench.RandomTensor({rows, in_features}, dtype);
    norm.x = params.x;
  }
  const bool norms_before = norms == Product::kNormBefore;
  if (norms_before) params.x = norm.y, params.input_norm = {};
  const double bytes = static_cast<double>(weight_bytes) +
                       static_cast<double>(rows * in_features) * SizeOf(dtype) +
                       static_cast<double>(rows * out_features) * SizeOf(y_dtype);
  bench.Time(name, 2.0 * rows * in_features * out_features, bytes, [&](int i) {
    params.weight = weights[i % copies].get();
    if (norms_before) bench.backend().Norm(norm);
    bench.backend().MatMul(params);
  });
  bench.Clear();
}

// GPT-2's queries, keys and values, written to the cache.
void TimeHeads(Bench& bench, int64_t rows, bool rotate) {
  const std::string name = fmt::format("project heads bfloat16{}: {} x 768, 12 heads of 64",
                                       rotate ? ", rotary" : "", rows);
  if (!bench.Wants(name)) return;
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
  bench.Time(name, 2.0 * rows * 3 * kHidden * kHidden, weight_bytes + 16.0 * rows * kHidden,
             [&](int i) {
               params.weight = weights[i % kCopies].get();
               bench.backend().ProjectHeads(params);
             });
  bench.Clear();
}

void TimeDecodeAttention(Bench& bench, int batch, int heads, int kv_heads, int context,
                         int head_dim) {
  const std::string name = fmt::format("attention decode bfloat16: B{} H{}/{} context {} D{}",
                                       batch, heads, kv_heads, context, head_dim);
  if (!bench.Wants(name)) return;
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
  bench.Time(name, 4.0 * batch * heads * head_dim * context, static_cast<double>(layer_bytes),
             [&](int i) {
               params.cache = &layers[i % copies];
               bench.backend().Attention(params);
             });
  bench.Clear();
}

void TimeNorm(Bench& bench, int64_t rows, int64_t hidden_size) {
  const std::string name =
      fmt::format("layer norm + residual bfloat16: {} x {}", rows, hidden_size);
  if (!bench.Wants(name)) return;
  const DType dtype = DType::kBFloat16;
  NormParams params;
  params.x = bench.RandomTensor({rows, hidden_size}, dtype);
  params.residual = bench.RandomTensor({rows, hidden_size}, dtype);
  params.gain = bench.RandomTensor({1, hidden_size}, dtype);
  params.bias = bench.RandomTensor({1, hidden_size}, dtype);
  params.y = bench.RandomTensor({rows, hidden_size}, dtype);
  bench.Time(name, 0, 6.0 * rows * hidden_size, [&](int) { bench.backend().Norm(params); });
  bench.Clear();
}

void TimePool(Bench& bench, int batch, int length) {
  const std::string name = fmt::format("mean pool bfloat16: B{} T{} x 768", batch, length);
  if (!bench.Wants(name)) return;
  std::vector<int32_t> offsets(batch + 1);
  for (int s = 0; s <= batch; ++s) offsets[s] = s * length;
  PoolParams params;
  params.normalize = true;
  params.hidden = bench.RandomTensor({int64_t{batch} * length, 768}, DType::kBFloat16);
  params.offsets = bench.Ids(offsets);
  params.num_sequences = batch;
  params.output = bench.RandomTensor({batch, 768}, DType::kFloat32);
  bench.Time(name, 0, 768.0 * batch * (2 * length + 4), [&](int) { bench.backend().Pool(params); });
  bench.Clear();
}

void TimeEmbed(Bench& bench, int64_t rows, int64_t hidden_size, bool normalize) {
  const std::string name =
      fmt::format("embed{} bfloat16: {} x {}", normalize ? " + norm" : "", rows, hidden_size);
  if (!bench.Wants(name)) return;
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
  bench.Time(name, 0, 6.0 * rows * hidden_size, [&](int) { bench.backend().Embed(params); });
  bench.Clear();
}

void TimeCandidates(Bench& bench, int64_t rows, int64_t vocab_size, int count, bool normalize) {
  const std::string name = fmt::format("top candidates: {} x {}, {}{}", rows, vocab_size, count,
                                       normalize ? ", normalised" : "");
  if (!bench.Wants(name)) return;
  TopCandidatesParams params;
  const int64_t stride = RoundUp(vocab_size, 64);
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
  bench.Time(
      name, 0, 4.0 * rows * vocab_size, [&](int) { bench.backend().TopCandidates(params); },
      Recording::kNo);
  bench.Clear();
}

void TimeSample(Bench& bench, int64_t rows, int64_t vocab_size, SampleRow options,
                const char* label) {
  const std::string name = fmt::format("sample {}: {} x {}", label, rows, vocab_size);
  if (!bench.Wants(name)) return;
  SampleParams params;
  params.logits = bench.RandomTensor({rows, vocab_size}, DType::kFloat32);
  std::vector<SampleRow> samples(rows, options);
  for (int64_t r = 0; r < rows; ++r) samples[r].row = static_cast<int32_t>(r);
  params.rows = samples;
  params.ids = static_cast<int32_t*>(bench.Random(rows * 4, DType::kFloat32));
  bench.Time(
      name, 0, 4.0 * rows * vocab_size, [&](int) { bench.backend().Sample(params); },
      Recording::kNo);
  bench.Clear();
}

void TimeProducts(Bench& bench) {
  const DType f16 = DType::kFloat16, f32 = DType::kFloat32;
  const Activation relu = Activation::kRelu, gelu = Activation::kGelu;
  TimeMatMul(bench, {"square", 8192, 8192, 8192});
  for (const DType dtype : {f16, DType::kBFloat16}) {
    TimeMatMul(bench, {"bias", 32768, 768, 3072, dtype, Activation::kNone, dtype});
    TimeMatMul(bench, {"bias relu", 32768, 768, 3072, dtype, relu, dtype});
    TimeMatMul(bench, {"bias gelu", 32768, 768, 3072, dtype, gelu, dtype});
  }
  for (int64_t rows : {32, 128, 4096}) {
    TimeMatMul(bench, {.label = "bias gelu",
                       .rows = rows,
                       .in_features = 768,
                       .out_features = 3072,
                       .activation = gelu});
  }
  TimeMatMul(bench, {"bias", 12288, 768, 50304});
  TimeMatMul(bench, {"bias", 12288, 768, 50257});
  for (int64_t vocab_size : {50304, 50257}) {
    TimeMatMul(bench, {.label = "bias, padded y",
                       .rows = 12288,
                       .in_features = 768,
                       .out_features = vocab_size,
                       .padded = true});
  }
  // Logits of an encoder-decoder with a bias (opus-mt's vocabulary size is odd), for one and four
  // beams.
  for (int64_t rows : {256, 1024}) {
    for (bool biased : {false, true}) {
      for (int64_t vocab_size : {30000, 58101}) {
        TimeMatMul(bench, {biased ? "logits + bias" : "logits", rows, 512, vocab_size, f16,
                           Activation::kNone, f32, biased, true});
      }
    }
  }
  for (int64_t rows : {1, 4, 8, 16, 32, 128}) {
    TimeMatMul(bench, {"bias", rows, 768, 2304});
    TimeMatMul(bench, {.label = "bias gelu_tanh",
                       .rows = rows,
                       .in_features = 768,
                       .out_features = 3072,
                       .activation = Activation::kGeluTanh});
    TimeMatMul(bench, {"bias", rows, 3072, 768});
    TimeMatMul(bench,
               {"logits", rows, 768, 50257, DType::kBFloat16, Activation::kNone, f32, false, true});
    TimeMatMul(bench, {"bias", rows, 4096, 14336});
  }
  for (int64_t rows : {1, 8, 64, 2048}) {
    TimeMatMul(bench, {"bias relu", rows, 512, 2048, f32, relu, f32});
  }
}

// The matmuls of a layer with too few rows to fill the GPU; weights come from memory, as in a
// model.
void TimeProductsOfSomeRows(Bench& bench) {
  for (int64_t width : {512, 768, 1024}) {
    for (int64_t rows : {24, 32, 64, 128, 256, 512}) {
      Product product = {"bias gelu", rows, width, 4 * width, DType::kFloat16, Activation::kGelu};
      product.y_dtype = product.dtype;
      product.most_weights = 24;
      TimeMatMul(bench, product);
      product.label = "bias, residual";
      product.activation = Activation::kNone;
      product.residual = true;
      std::swap(product.in_features, product.out_features);
      TimeMatMul(bench, product);
      product.in_features = width;
      TimeMatMul(bench, product);
    }
  }
}

// Norms and matmuls of their rows, as two operators and as one.
void TimeNormedProducts(Bench& bench) {
  const Product products[] = {
      {"norm", 0, 512, 512, DType::kFloat16},   {"norm", 0, 512, 2048, DType::kFloat16},
      {"norm", 0, 1024, 1024, DType::kFloat16}, {"norm", 0, 1024, 3072, DType::kFloat16},
      {"norm", 0, 1024, 4096, DType::kFloat16}, {"norm", 0, 768, 3072, DType::kBFloat16},
      {"norm", 0, 512, 512, DType::kFloat32},   {"norm", 0, 512, 1536, DType::kFloat32},
      {"norm", 0, 512, 2048, DType::kFloat32}};
  for (Product product : products) {
    product.y_dtype = product.dtype;
    for (int64_t rows : {1, 4, 8, 16}) {
      product.rows = rows;
      product.norm = Product::kNormBefore;
      TimeMatMul(bench, product);
      product.norm = Product::kNormInside;
      TimeMatMul(bench, product);
    }
  }
  // A step of one request in an encoder-decoder.
  for (int64_t rows : {1, 4}) {
    Product product = {"bias, residual", rows, 512, 512, DType::kFloat32};
    product.y_dtype = product.dtype;
    product.residual = true;
    product.most_weights = 24;
    TimeMatMul(bench, product);
    product.in_features = 2048;
    TimeMatMul(bench, product);
    product.label = "bias";
    product.residual = false;
    product.in_features = 512;
    product.out_features = 30000;
    TimeMatMul(bench, product);
  }
  // One row of Llama 3 8B (QKV; gate and up; output) and of smaller models.
  Product row = {"RMS norm", 1, 4096, 6144};
  row.kind = NormKind::kRmsNorm;
  row.biased = false;
  const std::tuple<int, int, bool> sizes[] = {{4096, 6144, false}, {4096, 28672, true},
                                              {4096, 4096, false}, {1024, 4096, false},
                                              {2048, 2048, false}, {2048, 5632, false}};
  for (const auto& [in_features, out_features, gated] : sizes) {
    row.in_features = in_features;
    row.out_features = out_features;
    row.gated = gated;
    row.activation = gated ? Activation::kSilu : Activation::kNone;
    for (const auto norm : {Product::kNoNorm, Product::kNormBefore, Product::kNormInside}) {
      row.norm = norm;
      row.label = norm == Product::kNoNorm ? "plain" : "RMS norm";
      TimeMatMul(bench, row);
    }
  }
}

// The matmuls of a layer of Llama 3 8B for prefill chunks.
void TimeProductsOfPieces(Bench& bench) {
  for (const int64_t rows : {200, 512, 768, 1024, 2048}) {
    Product piece = {"piece", rows, 4096, 6144};
    piece.biased = false;
    TimeMatMul(bench, piece);
    piece.out_features = 28672;
    piece.gated = true;
    piece.activation = Activation::kSilu;
    TimeMatMul(bench, piece);
    piece.gated = false;
    piece.activation = Activation::kNone;
    piece.residual = true;
    piece.out_features = 4096;
    TimeMatMul(bench, piece);
    piece.in_features = 14336;
    TimeMatMul(bench, piece);
  }
}

void TimeAll(Bench& bench) {
  TimeProductsOfPieces(bench);
  TimeProducts(bench);
  TimeProductsOfSomeRows(bench);
  TimeNormedProducts(bench);
  TimeExperts(bench);
  for (int64_t rows : {1, 4, 8, 16, 32, 128}) {
    for (bool rotate : {false, true}) TimeHeads(bench, rows, rotate);
  }
  TimePrefills(bench);
  TimeDecodeAttention(bench, 1, 64, 8, 2048, 128);
  TimeDecodeAttention(bench, 1, 64, 8, 8192, 128);
  TimeDecodeAttention(bench, 32, 64, 8, 2048, 128);
  TimeDecodeAttention(bench, 32, 64, 8, 8192, 128);
  for (int head_dim : {64, 80, 96}) TimeDecodeAttention(bench, 32, 64, 8, 2048, head_dim);
  TimeDecodeAttention(bench, 32, 32, 8, 2048, 128);
  TimeDecodeAttention(bench, 32, 28, 4, 2048, 128);
  TimeDecodeAttention(bench, 1, 28, 4, 2048, 128);
  TimeDecodeAttention(bench, 32, 32, 2, 2048, 128);
  TimeDecodeAttention(bench, 32, 16, 8, 2048, 256);
  for (int context : {64, 256}) {
    TimeDecodeAttention(bench, 1, 32, 8, context, 128);
    TimeDecodeAttention(bench, 32, 32, 8, context, 128);
    TimeDecodeAttention(bench, 256, 32, 8, context, 128);
  }
  TimeDecodeAttention(bench, 1, 32, 8, 512, 128);
  TimeDecodeAttention(bench, 4, 32, 8, 1024, 128);
  TimeDecodeAttention(bench, 1, 12, 12, 512, 64);
  for (int context : {1024, 2048}) TimeDecodeAttention(bench, 32, 12, 12, context, 64);
  TimeDecodeAttention(bench, 16, 12, 12, 512, 64);
  TimeDecodeAttention(bench, 64, 12, 12, 512, 64);
  TimeDecodeAttention(bench, 256, 12, 12, 512, 64);
  TimeDecodeAttention(bench, 32, 12, 12, 512, 64);
  TimeDecodeAttention(bench, 256, 8, 8, 64, 64);
  for (int head_dim : {32, 80, 96, 256}) TimeDecodeAttention(bench, 32, 12, 12, 512, head_dim);
  TimeNorm(bench, 16384, 4096);
  TimeNorm(bench, 32768, 768);
  TimeNorm(bench, 32, 768);
  for (int64_t rows : {1, 32, 4096}) {
    for (bool normalize : {false, true}) TimeEmbed(bench, rows, 768, normalize);
  }
  for (const auto& [batch, length] : {std::pair(1, 32), {1, 512}, {256, 128}}) {
    TimePool(bench, batch, length);
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
  TimeCandidates(bench, 1024, 30000, 8, true);
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
  Bench bench(**backend, argc > 2 ? argv[2] : "");
  TimeAll(bench);
  if (argc < 2) return 0;
  std::FILE* file = std::fopen(argv[1], "w");
  BEAMLINE_CHECK(file != nullptr);
  fmt::print(file, "{{\"device\": \"{}\", \"lines\": [\n", (*backend)->Description());
  for (size_t i = 0; i < bench.lines().size(); ++i) {
    const Line& line = bench.lines()[i];
    fmt::print(file,
               "{{\"name\": \"{}\", \"us\": {:.3f}, \"host_us\": {:.3f}, \"tflops\": {:.2f}, "
               "\"gbs\": {:.1f}}}{}\n",
               line.name, line.microseconds, line.host_microseconds, line.tera_flops,
               line.giga_bytes, i + 1 < bench.lines().size() ? "," : "");
  }
  fmt::print(file, "]}}\n");
  return std::fclose(file) == 0 ? 0 : 1;
}

}  // namespace
}  // namespace beamline

int main(int argc, char** argv) { return beamline::Main(argc, argv); }
