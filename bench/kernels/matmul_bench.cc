// Benchmarks MatMul on layers of the demo models and on larger ones. Arguments: rows, in_features,
// out_features.
#include "bench/kernels/bench_arrays.h"

namespace beamline::bench {
namespace {

void RunMatMul(benchmark::State& state, const Precision& precision, Activation activation) {
  if (!TheBackend().SupportsPrecision(precision).ok()) {
    state.SkipWithError("this CPU does not compute in the type");
    return;
  }
  const int64_t rows = state.range(0);
  const int64_t in_features = state.range(1);
  const int64_t out_features = state.range(2);
  const auto weight = RandomWeight(out_features, in_features, precision);
  Matrix x(rows, in_features);
  Matrix bias(1, out_features);
  Matrix y(rows, out_features);
  MatMulParams params;
  params.x = x.tensor();
  params.weight = weight.get();
  params.bias = bias.vector();
  params.activation = activation;
  params.y = y.tensor();
  for (auto _ : state) TheBackend().MatMul(params);
  CountFlops(state, 2.0 * static_cast<double>(rows * in_features * out_features));
}

void MatMulFloat32(benchmark::State& state) {
  RunMatMul(state, DType::kFloat32, Activation::kNone);
}
void MatMulFloat32Gelu(benchmark::State& state) {
  RunMatMul(state, DType::kFloat32, Activation::kGelu);
}
void MatMulBFloat16(benchmark::State& state) {
  RunMatMul(state, DType::kBFloat16, Activation::kNone);
}

void MatMulInt8(benchmark::State& state) { RunMatMul(state, DType::kInt8, Activation::kNone); }
void MatMulInt8Weights(benchmark::State& state) {
  RunMatMul(state, Precision(DType::kInt8, DType::kFloat32, std::nullopt), Activation::kNone);
}

void ProductShapes(benchmark::internal::Benchmark* benchmark) {
  benchmark->UseRealTime();
  for (int64_t rows : {1, 4, 8, 37, 64, 512, 4096}) {
    benchmark->Args({rows, 192, 576})->Args({rows, 256, 256})->Args({rows, 256, 1024});
    benchmark->Args({rows, 1024, 256});
    if (rows <= 64) benchmark->Args({rows, 256, 8000});
  }
  benchmark->Args({1, 4096, 4096})->Args({64, 4096, 4096})->Args({512, 1024, 4096});
}

BENCHMARK(MatMulFloat32)->Apply(ProductShapes);
BENCHMARK(MatMulBFloat16)->Apply(ProductShapes);
BENCHMARK(MatMulInt8)->Apply(ProductShapes);
BENCHMARK(MatMulInt8Weights)->Apply(ProductShapes);
BENCHMARK(MatMulFloat32Gelu)->UseRealTime()->Args({1, 256, 1024})->Args({512, 256, 1024});

}  // namespace
}  // namespace beamline::bench
