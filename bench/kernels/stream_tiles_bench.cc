// Times matmuls of 2 to 8 rows with the weights of a layer of Llama 3 8B, and of its LM head.
// Compares all kernels for them in one run, in CUDA graphs whose weights come from memory.
//
//   stream_tiles_bench [PATTERN]      PATTERN: a regex; runs only lines whose name matches
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bench/kernels/gpu_bench.h"
#include "fmt/format.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/products/matmul.h"
#include "kernels/cuda/products/product_picker.h"
#include "kernels/cuda/products/stream_tiles_product.h"

namespace beamline {
namespace {

using cuda::CudaWeight;
using cuda::StreamSplit;

constexpr DType kType = DType::kBFloat16;
constexpr size_t kWeightsBytes = size_t{240} << 20;  // per graph; several times the L2 cache
constexpr int kRecordedCalls = 24;
constexpr int kRounds = 5;
constexpr double kChainMicroseconds = 10'000;  // duration of a round

struct Shape {
  const char* name;
  int64_t in_features, out_features;
  bool gated = false, residual = false, normed = false, logits = false;

  int64_t width() const { return gated ? out_features / 2 : out_features; }
};
constexpr Shape kShapes[] = {
    {.name = "qkv", .in_features = 4096, .out_features = 6144, .normed = true},
    {.name = "output", .in_features = 4096, .out_features = 4096, .residual = true},
    {.name = "gate and up",
     .in_features = 4096,
     .out_features = 28672,
     .gated = true,
     .normed = true},
    {.name = "down", .in_features = 14336, .out_features = 4096, .residual = true},
};
constexpr Shape kHead = {
    .name = "head", .in_features = 4096, .out_features = 128256, .logits = true};

std::unique_ptr<PackedWeight> RandomWeight(Backend& backend, const Shape& shape) {
  std::vector<uint16_t> values(shape.out_features * shape.in_features);
  uint32_t state = 1;
  for (uint16_t& value : values) {
    state = state * 1664525u + 1013904223u;
    // A random sign, an exponent of 2^-7 to 2^-4, a random mantissa.
    value = static_cast<uint16_t>((state >> 16 & 0x807f) | (120 + (state >> 8 & 3)) << 7);
  }
  const HostMatrix part = {
      .data = values.data(), .dtype = kType, .rows = shape.out_features, .cols = shape.in_features};
  auto weight = backend.PackWeight({&part, 1}, kType);
  BEAMLINE_CHECK(weight.ok());
  return *std::move(weight);
}

// One matmul: its weights, and operands of `rows` rows.
struct Product {
  Shape shape;
  std::vector<std::unique_ptr<PackedWeight>> weights;
  std::vector<cuda::E4m3Matrix> small_weights;
  std::vector<cuda::Int4Matrix> smallest_weights;
  Tensor scales, block_scales;

  Product(Bench& bench, const Shape& of, size_t most_bytes) : shape(of) {
    const size_t bytes = of.in_features * of.out_features * 2;
    const size_t copies = std::clamp<size_t>(most_bytes / bytes, 1, 8);
    for (size_t i = 0; i < copies; ++i) weights.push_back(RandomWeight(bench.backend(), of));
    scales = bench.RandomTensor({of.out_features}, DType::kFloat32);
    block_scales =
        bench.RandomTensor({(of.out_features + 127) / 128, of.in_features / 128}, DType::kFloat32);
    // Each weight's memory is reused for two e4m3 and four int4 weights. All bit patterns are valid
    // numbers, except two of 256 in e4m3.
    for (const auto& weight : weights) {
      char* const data = static_cast<char*>(const_cast<void*>(Cuda(*weight).data()));
      for (size_t half = 0; half < 2; ++half) {
        small_weights.push_back(
            {data + half * bytes / 2, of.out_features, of.in_features, of.in_features, scales});
      }
      for (size_t quarter = 0; quarter < 4; ++quarter) {
        const int64_t groups = of.in_features / 128;
        const Tensor of_rows = bench.RandomTensor({of.out_features, groups}, DType::kInt32);
        smallest_weights.push_back({data + quarter * bytes / 4, of.out_features, of.in_features,
                                    of.in_features / 2, of_rows.data, groups});
      }
    }
  }
  static const CudaWeight& Cuda(const PackedWeight& weight) {
    return static_cast<const CudaWeight&>(weight);
  }
  MatMulParams Params(Bench& bench, int64_t rows) const {
    const DType y = shape.logits ? DType::kFloat32 : kType;
    MatMulParams params;
    params.x = bench.RandomTensor({rows, shape.in_features}, kType);
    params.activation = shape.gated ? Activation::kSilu : Activation::kNone;
    params.gated = shape.gated;
    params.y = bench.RandomTensor({rows, shape.width()}, y);
    params.y_owns_padding = shape.logits;
    if (shape.residual) params.residual = bench.RandomTensor({rows, shape.width()}, y);
    return params;
  }
  double Bytes() const { return 2.0 * shape.in_features * shape.out_features; }
};

void GiveNorm(Bench& bench, const Shape& shape, MatMulParams& params) {
  if (!shape.normed) return;
  params.input_norm.kind = NormKind::kRmsNorm;
  params.input_norm.gain = bench.RandomTensor({1, shape.in_features}, kType);
  params.normed = bench.RandomTensor({params.x.num_rows(), shape.in_features}, kType);
}

class Run {
 public:
  Run(cuda::CudaBackend& backend, const std::string& pattern)
      : backend_(backend), bench_(backend, pattern) {}

  void Products(const Shape& shape) {
    Product product(bench_, shape, kWeightsBytes);
    for (const int64_t rows : {2, 4, 8}) {
      MatMulParams params = product.Params(bench_, rows);
      const std::string name =
          fmt::format("{} {} x {} x {}", shape.name, rows, shape.in_features, shape.out_features);
      const auto chain = [&](const std::string& way, double bytes, auto launch) {
        Chain(name + ", " + way, bytes, launch);
      };
      const auto weight = [&](int i) -> const CudaWeight& {
        return Product::Cuda(*product.weights[i % product.weights.size()]);
      };
      chain("now", product.Bytes(), [&](int i) {
        params.weight = product.weights[i % product.weights.size()].get();
        backend_.MatMul(params);
        return true;
      });
      chain("cuBLASLt, plain", product.Bytes(), [&](int i) { return Plain(weight(i), params); });
      chain("few rows", product.Bytes(), [&](int i) {
        cuda::SkinnyTensorCoreProduct(device(), params, weight(i));
        return true;
      });
      for (const auto& [split, way] : kSplits) {
        chain(std::string("stream, ") + way, product.Bytes(), [&, split = split](int i) {
          return Stream(params, shape.in_features, cuda::kStreamStepOf16Bits, weight(i), split);
        });
      }
      for (const auto& [split, way] : kSplits) {
        chain(std::string("int4, ") + way, product.Bytes() / 4 * (1 + 1.0 / 16),
              [&, split = split](int i) {
                return Stream(params, shape.in_features, cuda::kStreamStepOfInt4,
                              product.smallest_weights[i % product.smallest_weights.size()], split);
              });
        for (const bool blocks : {false, true}) {
          chain(fmt::format("e4m3 {}, {}", blocks ? "blocks" : "rows", way), product.Bytes() / 2,
                [&, split = split](int i) {
                  cuda::E4m3Matrix small = product.small_weights[i % product.small_weights.size()];
                  if (blocks) small.scales = product.block_scales;
                  return Stream(params, shape.in_features, cuda::kStreamStepOfE4m3, small, split);
                });
        }
      }
    }
    BEAMLINE_CHECK(backend_.Synchronize().ok());
    bench_.Clear();
  }

  // The norms and matmuls of a layer, one after the other.
  void Layer() {
    std::vector<Product> products;
    for (const Shape& shape : kShapes) products.emplace_back(bench_, shape, 1);
    for (const int64_t rows : {2, 4, 8}) {
      std::vector<MatMulParams> all;
      for (const Product& product : products) {
        MatMulParams params = product.Params(bench_, rows);
        GiveNorm(bench_, product.shape, params);
        params.weight = product.weights[0].get();
        all.push_back(params);
      }
      double bytes = 0;
      for (const Product& product : products) bytes += product.Bytes();
      const std::string name = fmt::format("layer of {} rows", rows);
      Chain(name + ", now", bytes, [&](int) {
        for (const MatMulParams& params : all) backend_.MatMul(params);
        return true;
      });
      Chain(name + ", stream", bytes, [&](int) {
        bool launched = true;
        for (MatMulParams params : all) {
          if (!params.normed.empty()) {
            NormParams norm;
            norm.kind = NormKind::kRmsNorm;
            norm.x = params.x;
            norm.gain = params.input_norm.gain;
            norm.y = params.normed;
            backend_.Norm(norm);
            params.x = params.normed;
            params.input_norm = {};
          }
          launched =
              launched && Stream(params, params.weight->in_features(), cuda::kStreamStepOf16Bits,
                                 Product::Cuda(*params.weight), StreamSplit::kAsFits);
        }
        return launched;
      });
    }
    BEAMLINE_CHECK(backend_.Synchronize().ok());
    bench_.Clear();
  }

 private:
  static constexpr std::array<std::pair<StreamSplit, const char*>, 3> kSplits = {
      {{StreamSplit::kOne, "1"}, {StreamSplit::kTwo, "2"}, {StreamSplit::kFour, "4"}}};

  cuda::Device& device() { return backend_.device(); }

  // False where it does not apply.
  template <typename Weight>
  bool Stream(const MatMulParams& params, int64_t in_features, int step_columns,
              const Weight& weight, StreamSplit split) {
    if (!cuda::FitsStreamTiles(params, in_features, step_columns, split)) return false;
    cuda::StreamTilesProduct(device(), params, weight, split);
    return true;
  }

  bool Plain(const CudaWeight& weight, const MatMulParams& params) {
    cuda::LtProduct call;
    call.a = params.x;
    call.b = Tensor(const_cast<void*>(weight.data()), kType,
                    {weight.out_features(), weight.in_features()});
    call.transpose_b = true;
    const int64_t rows = params.x.num_rows();
    const DType y = params.y.dtype;
    device().BeginOperator();
    call.d = Tensor(device().TakeScratch<char>(rows * weight.out_features() * SizeOf(y)), y,
                    {rows, weight.out_features()});
    call.bucket_rows = true;
    return backend_.products().Run(call).ok();
  }

  // Prints a line for a CUDA graph of launch(i) with increasing i, unless launch refuses the case.
  template <typename Launch>
  void Chain(const std::string& name, double bytes, Launch launch) {
    if (!bench_.Wants(name) || !launch(0)) return;
    int next = 0;
    const uint64_t key = ++last_recording_;
    const auto replay = [&](int replays) {
      const auto begin = std::chrono::steady_clock::now();
      for (int i = 0; i < replays; ++i) {
        backend_.Replay(key, [&] {
          for (int call = 0; call < kRecordedCalls; ++call) launch(next++);
        });
      }
      BEAMLINE_CHECK(backend_.Synchronize().ok());
      const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begin;
      return spent.count() * 1e6 / replays / kRecordedCalls;
    };
    replay(kReplaysToRecord);
    const int replays =
        std::clamp(static_cast<int>(kChainMicroseconds / (replay(1) * kRecordedCalls)), 1, 50);
    std::vector<double> microseconds;
    for (int round = 0; round < kRounds; ++round) microseconds.push_back(replay(replays));
    std::sort(microseconds.begin(), microseconds.end());
    const double median = microseconds[kRounds / 2];
    fmt::print("{:<52} {:>8.2f} us {:>6.0f} GB/s\n", name, median, bytes / median * 1e-3);
    std::fflush(stdout);
  }

  cuda::CudaBackend& backend_;
  Bench bench_;
  uint64_t last_recording_ = 0;
};

int Main(int argc, char** argv) {
  auto backend = cuda::CudaBackend::Create(0);
  if (!backend.ok()) {
    fmt::print(stderr, "{}\n", backend.status().ToString());
    return 1;
  }
  fmt::print("{}: {}\n", (*backend)->Name(), (*backend)->Description());
  Run run(**backend, argc > 1 ? argv[1] : "");
  run.Layer();
  for (const Shape& shape : kShapes) run.Products(shape);
  run.Products(kHead);
  return 0;
}

}  // namespace
}  // namespace beamline

int main(int argc, char** argv) { return beamline::Main(argc, argv); }
