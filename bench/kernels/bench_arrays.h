// Inputs of the CPU operator benchmarks.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include "base/check.h"
#include "benchmark/benchmark.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/float16.h"

namespace beamline::bench {

inline Backend& TheBackend() {
  static const std::unique_ptr<Backend> backend = MakeCpuBackend({});
  return *backend;
}

// A float32 matrix of random numbers that owns its memory.
class Matrix {
 public:
  Matrix(int64_t rows, int64_t cols, float scale = 1.0f) : rows_(rows), cols_(cols) {
    auto buffer = TheBackend().Allocate(rows * cols * sizeof(float));
    BEAMLINE_CHECK(buffer.ok());
    buffer_ = *std::move(buffer);
    std::mt19937 random(1);
    std::normal_distribution<float> normal(0.0f, scale);
    std::generate_n(data(), rows * cols, [&] { return normal(random); });
  }
  Tensor tensor() { return Tensor(data(), DType::kFloat32, {rows_, cols_}); }
  Tensor vector() { return Tensor(data(), DType::kFloat32, {rows_ * cols_}); }
  float* data() { return static_cast<float*>(buffer_->data()); }
  // Converts the numbers to bfloat16, stored in the first half of the memory.
  void RoundToBFloat16() {
    std::vector<uint16_t> rounded(rows_ * cols_);
    std::transform(data(), data() + rows_ * cols_, rounded.begin(), ToBFloat16);
    std::memcpy(buffer_->data(), rounded.data(), rounded.size() * sizeof(uint16_t));
  }

 private:
  int64_t rows_;
  int64_t cols_;
  std::unique_ptr<Buffer> buffer_;
};

inline std::unique_ptr<PackedWeight> RandomWeight(int64_t out_features, int64_t in_features,
                                                  const Precision& precision) {
  Matrix values(out_features, in_features, 0.05f);
  const HostMatrix matrix = {.data = values.data(), .rows = out_features, .cols = in_features};
  auto packed = TheBackend().PackWeight({&matrix, 1}, precision);
  BEAMLINE_CHECK(packed.ok());
  return *std::move(packed);
}

inline void CountFlops(benchmark::State& state, double flops_per_call) {
  state.counters["FLOP/s"] = benchmark::Counter(
      flops_per_call * static_cast<double>(state.iterations()), benchmark::Counter::kIsRate);
}
inline void CountBytes(benchmark::State& state, double bytes_per_call) {
  state.counters["B/s"] = benchmark::Counter(
      bytes_per_call * static_cast<double>(state.iterations()), benchmark::Counter::kIsRate);
}

}  // namespace beamline::bench
