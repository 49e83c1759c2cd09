// Times operations of the CUDA module beyond kernels/operators.h, at the sizes of the performance
// targets. Compares matmuls with epilogues to plain ones, and grouped matmuls to consecutive ones.
// Softmax and a copy run in CUDA graphs. Prints one line each and writes JSON, which
// bench/gpu/compare_torch_operators.py compares with PyTorch.
//
//   cuda_library_bench RESULTS.json [SMALL | softmax]
//   cuda_library_bench turns
//
// SMALL: one sixteenth of the rows in every matmul. softmax: only softmax. turns: only the matmuls
// with epilogues. Each line "EPILOGUE SECONDS" on standard input runs one of them back to back for
// this time and prints the microseconds per call. So another program can alternate with it
// (bench/gpu/compare_torch_operators.py).
//
// Variants of a matmul alternate in every round, because clocks drift by more than the variants
// differ.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "fmt/format.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/epilogues/fill_random.h"
#include "kernels/cuda/epilogues/gradients.h"
#include "kernels/cuda/epilogues/row_softmax.h"

namespace beamline {
namespace {

using cuda::LtEpilogue;
using cuda::LtProduct;

constexpr int kNumRounds = 9;
constexpr double kRoundSeconds = 0.02;
// Calls per CUDA graph: enough to hide the host's launch time.
constexpr int kRecordedCalls = 32;
constexpr size_t kRotationBytes = size_t{512} << 20;  // several times the L2 cache
constexpr double kMemoryFraction = 0.7;  // the rest is for the programs that alternate with it

// The matmul of the performance targets.
constexpr struct { int64_t m, k, n; } kProduct = {65536, 16384, 8192};
constexpr int64_t kSmallRows = 4096;

struct Work {
  std::string name;
  double flops = 0;
  double bytes = 0;
  std::function<void(int)> run;  // called with the number of the call
  int parts = 1;  // `run` does this many equal parts; flops, bytes and the time are per part
};

class Bench {
 public:
  Bench() {
    auto backend = cuda::CudaBackend::Create(0, {.fraction = kMemoryFraction});
    if (!backend.ok()) fmt::print(stderr, "{}\n", backend.status().ToString());
    BEAMLINE_CHECK(backend.ok());
    backend_ = *std::move(backend);
    backend_->products().set_gradients(cuda::Gradients());
  }
  cuda::CudaBackend& backend() { return *backend_; }
  cuda::Device& device() { return backend_->device(); }

  Tensor Random(std::initializer_list<int64_t> shape, DType dtype) {
    Tensor tensor = Uninitialized(shape, dtype);
    cuda::FillRandom(device(), tensor.data, dtype, static_cast<size_t>(tensor.num_elements()));
    return tensor;
  }
  Tensor Uninitialized(std::initializer_list<int64_t> shape, DType dtype) {
    Tensor tensor(nullptr, dtype, shape);
    auto buffer = backend_->Allocate(static_cast<size_t>(tensor.num_elements()) * SizeOf(dtype));
    BEAMLINE_CHECK(buffer.ok());
    tensor.data = (*buffer)->data();
    buffers_.push_back(*std::move(buffer));
    return tensor;
  }
  void Clear() {
    BEAMLINE_CHECK(backend_->Synchronize().ok());
    buffers_.clear();
  }
  uint64_t NextRecording() { return ++last_recording_; }
  // Seconds per call, over at least two calls, back to back for about `seconds`.
  double Turn(const Work& work, double seconds) {
    const int calls = std::max(2, static_cast<int>(seconds / Round(work, 2)));
    return Round(work, calls);
  }

  // Prints medians over rounds; every round runs each work.
  void Time(const std::vector<Work>& works) {
    std::vector<std::vector<double>> seconds(works.size());
    std::vector<int> calls(works.size());
    for (size_t w = 0; w < works.size(); ++w) {
      Round(works[w], 2);
      const double run_seconds = Round(works[w], 3) * works[w].parts;
      calls[w] = std::clamp(static_cast<int>(kRoundSeconds / run_seconds), 2, 1000);
    }
    for (int round = 0; round < kNumRounds; ++round) {
      for (size_t w = 0; w < works.size(); ++w) {
        seconds[w].push_back(Round(works[w], calls[w]));
      }
    }
    for (size_t w = 0; w < works.size(); ++w) {
      std::sort(seconds[w].begin(), seconds[w].end());
      const double median = seconds[w][kNumRounds / 2];
      const double spread = (seconds[w].back() - seconds[w].front()) / median;
      const double tflops = works[w].flops / median * 1e-12, gbs = works[w].bytes / median * 1e-9;
      fmt::print("{:<52} {:>10.1f} us {:>8.1f} TFLOP/s {:>8.0f} GB/s  spread {:.1f}%\n",
                 works[w].name, median * 1e6, tflops, gbs, spread * 100);
      std::fflush(stdout);
      lines_.push_back(
          fmt::format("{{\"name\": \"{}\", \"us\": {:.3f}, \"tflops\": {:.2f}, \"gbs\": {:.1f}, "
                      "\"spread\": {:.4f}}}",
                      works[w].name, median * 1e6, tflops, gbs, spread));
    }
  }
  bool Write(const char* path) {
    std::FILE* file = std::fopen(path, "w");
    if (file == nullptr) return false;
    fmt::print(file, "{{\"device\": \"{}\", \"lines\": [\n", backend_->Description());
    for (size_t i = 0; i < lines_.size(); ++i) {
      fmt::print(file, "{}{}\n", lines_[i], i + 1 < lines_.size() ? "," : "");
    }
    fmt::print(file, "]}}\n");
    return std::fclose(file) == 0;
  }

 private:
  // Returns seconds per call (per part of it).
  double Round(const Work& work, int calls) {
    BEAMLINE_CHECK(backend_->Synchronize().ok());
    const auto begin = std::chrono::steady_clock::now();
    for (int call = 0; call < calls; ++call) work.run(next_call_++);
    const absl::Status status = backend_->Synchronize();
    if (!status.ok()) fmt::print(stderr, "{}: {}\n", work.name, status.ToString());
    BEAMLINE_CHECK(status.ok());
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begin;
    return spent.count() / calls / work.parts;
  }

  std::unique_ptr<cuda::CudaBackend> backend_;
  std::vector<std::unique_ptr<Buffer>> buffers_;
  std::vector<std::string> lines_;
  int next_call_ = 0;
  uint64_t last_recording_ = 0;
};

// The plain matmul and its epilogues at one size.
std::vector<Work> Epilogues(Bench& bench, int64_t m, int64_t k, int64_t n) {
  const DType dtype = DType::kFloat16;
  LtProduct plain = {.a = bench.Random({m, k}, dtype), .b = bench.Random({k, n}, dtype)};
  plain.d = bench.Uninitialized({m, n}, dtype);
  const Tensor bias = bench.Random({n}, dtype);
  const Tensor gradient = bench.Uninitialized({n}, dtype);
  const Tensor mask = bench.Random({m, n / 32}, DType::kFloat32);  // any bits will do
  const Tensor bits(mask.data, DType::kInt8, {m, n / 8});
  const Tensor gelu = bench.Random({m, n}, dtype);
  std::vector<Work> works;
  for (const LtEpilogue epilogue :
       {LtEpilogue::kNone, LtEpilogue::kReluBias, LtEpilogue::kReluAuxBias,
        LtEpilogue::kGeluAuxBias, LtEpilogue::kDReluBgrad, LtEpilogue::kDGeluBgrad}) {
    LtProduct product = plain;
    product.epilogue = epilogue;
    if (ReadsBias(epilogue)) product.bias = bias;
    if (WritesBias(epilogue)) product.bias = gradient;
    if (UsesReluMask(epilogue)) product.aux = bits;
    if (UsesGeluInput(epilogue)) product.aux = gelu;
    works.push_back({fmt::format("product float16 {} {} x {} x {}", Name(epilogue), m, k, n),
                     2.0 * m * k * n, 2.0 * (m * k + k * n + m * n), [product, &bench](int) {
                       bench.device().BeginOperator();
                       const absl::Status status = bench.backend().products().Run(product);
                       if (!status.ok()) fmt::print(stderr, "{}\n", status.ToString());
                     }});
  }
  return works;
}

void TakeTurns(Bench& bench) {
  const std::vector<Work> works = Epilogues(bench, kProduct.m, kProduct.k, kProduct.n);
  char name[32];
  double seconds;
  while (std::scanf("%31s %lf", name, &seconds) == 2) {
    const std::string prefix = fmt::format("product float16 {} ", name);
    for (const Work& work : works) {
      if (!work.name.starts_with(prefix)) continue;
      fmt::print("{:.3f}\n", bench.Turn(work, seconds) * 1e6);
      std::fflush(stdout);
    }
  }
}

void TimeGroup(Bench& bench) {
  const DType dtype = DType::kBFloat16;
  std::vector<LtProduct> group;
  double flops = 0;
  for (int i = 0; i < 24; ++i) {
    const int64_t m = 64 * (1 + i % 6), n = 512 * (1 + i % 3), k = 512 * (1 + i % 4);
    group.push_back({.a = bench.Random({m, k}, dtype),
                     .b = bench.Random({n, k}, dtype),
                     .d = bench.Uninitialized({m, n}, dtype),
                     .transpose_b = true});
    flops += 2.0 * m * n * k;
  }
  cuda::LtMatMul& products = bench.backend().products();
  bench.Time({{"24 unequal products bfloat16, one after the other", flops, 0,
               [&](int) {
                 for (const LtProduct& p : group) BEAMLINE_CHECK(products.Run(p).ok());
               }},
              {"24 unequal products bfloat16, grouped", flops, 0,
               [&](int) { BEAMLINE_CHECK(products.RunGroup(group).ok()); }}});
  bench.Clear();
}

void TimeFloat32(Bench& bench, int64_t size) {
  LtProduct product = {.a = bench.Random({size, size}, DType::kFloat32),
                       .b = bench.Random({size, size}, DType::kFloat32),
                       .d = bench.Uninitialized({size, size}, DType::kFloat32)};
  LtProduct tf32 = product;
  tf32.tf32 = true;
  std::vector<Work> works;
  for (const LtProduct& p : {product, tf32}) {
    works.push_back(
        {fmt::format("product {} {} x {} x {}", p.tf32 ? "tf32" : "float32", size, size, size),
         2.0 * size * size * size, 12.0 * size * size,
         [p, &bench](int) { BEAMLINE_CHECK(bench.backend().products().Run(p).ok()); }});
  }
  bench.Time(works);
  bench.Clear();
}

void TimeSoftmax(Bench& bench, int64_t rows, int64_t width, DType dtype) {
  const auto bytes = static_cast<size_t>(rows * width) * SizeOf(dtype);
  const int copies = static_cast<int>(std::clamp<size_t>(kRotationBytes / (2 * bytes), 1, 16));
  std::vector<Tensor> x, y;
  for (int i = 0; i < copies; ++i) {
    x.push_back(bench.Random({rows, width}, dtype));
    y.push_back(bench.Uninitialized({rows, width}, dtype));
  }
  const double moved = 2.0 * static_cast<double>(bytes);
  const auto recorded = [&](std::string name, std::function<void(int)> run) {
    const uint64_t key = bench.NextRecording();
    const auto replay = [&bench, run = std::move(run), key](int) {
      bench.backend().Replay(key, [&] {
        for (int call = 0; call < kRecordedCalls; ++call) run(call);
      });
    };
    return Work{std::move(name), 0, moved, replay, kRecordedCalls};
  };
  bench.Time({recorded(fmt::format("softmax {} {} x {}", Name(dtype), rows, width),
                       [&](int i) {
                         cuda::RowSoftmax(bench.device(), {x[i % copies], y[i % copies]});
                       }),
              recorded(fmt::format("copy {} {} x {}", Name(dtype), rows, width), [&](int i) {
                bench.device().Check(
                    cudaMemcpyAsync(y[i % copies].data, x[i % copies].data, bytes,
                                    cudaMemcpyDeviceToDevice, bench.device().stream()),
                    "copy");
              })});
  bench.Clear();
}

int Main(int argc, char** argv) {
  if (argc < 2) {
    fmt::print(stderr, "usage: cuda_library_bench RESULTS.json [SMALL | softmax] | turns\n");
    return 2;
  }
  Bench bench;
  if (std::string_view(argv[1]) == "turns") {
    TakeTurns(bench);
    return 0;
  }
  fmt::print("{}: {}\n", bench.backend().Name(), bench.backend().Description());
  const bool small = argc > 2;
  if (!small || std::string_view(argv[2]) != "softmax") {
    bench.Time(Epilogues(bench, small ? kSmallRows : kProduct.m, kProduct.k, kProduct.n));
    bench.Clear();
    TimeGroup(bench);
    TimeFloat32(bench, small ? 2048 : 8192);
  }
  for (const DType dtype : {DType::kFloat16, DType::kFloat32}) {
    for (const int64_t width :
         {256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 50257, 65536, 131072}) {
      TimeSoftmax(bench, 4096, width, dtype);
    }
  }
  return bench.Write(argv[1]) ? 0 : 1;
}

}  // namespace
}  // namespace beamline

int main(int argc, char** argv) { return beamline::Main(argc, argv); }
