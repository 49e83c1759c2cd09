// What the operator tests in 16-bit types share: the GPU, and random arrays of the type under test.
#pragma once

#include <cstdio>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cuda_loader.h"
#include "tests/gpu/random_weight.h"
#include "tests/gpu/typed_arrays.h"
#include "tests/kernels/reference_ops.h"
#include "tests/kernels/test_gpu_memory.h"
#include "tests/test_seed.h"

namespace beamline {

// ||actual - expected|| / ||expected||: one rounding of the output, and of what is kept in between.
inline double Tolerance(DType dtype) {
  return dtype == DType::kFloat32 ? 3e-6 : dtype == DType::kFloat16 ? 8e-4 : 6e-3;
}

class HalfOpTest : public testing::TestWithParam<DType> {
 protected:
  static void SetUpTestSuite() {
    auto backend = MakeCudaBackend(0, kTestGpuMemory);
    ASSERT_TRUE(backend.ok()) << backend.status();
    backend_ = std::move(*backend).release();
  }
  static void TearDownTestSuite() {
    delete backend_;
    backend_ = nullptr;
  }
  void SetUp() override {
    ASSERT_NE(backend_, nullptr) << "the CUDA backend did not open";
    seed_ = TestSeed();
    random_.seed(seed_);
  }
  void TearDown() override {
    if (HasFailure()) std::fprintf(stderr, "seed %u\n", seed_);
    if (backend_ == nullptr) return;
    EXPECT_TRUE(backend_->Synchronize().ok());
  }

  Backend& backend() { return *backend_; }
  DType dtype() const { return GetParam(); }
  int RandomInt(int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random_);
  }
  TypedArray Random(int64_t rows, int64_t cols, float scale = 1.0f) {
    return TypedArray::Random(backend(), dtype(), rows, cols, scale, random_);
  }
  TypedArray Output(int64_t rows, int64_t cols, DType type) {
    return TypedArray::Poisoned(backend(), type, rows, cols);
  }
  TypedArray Output(int64_t rows, int64_t cols) { return Output(rows, cols, dtype()); }
  IndexArray Ids(std::vector<int32_t> values) { return IndexArray(backend(), std::move(values)); }
  void ExpectClose(const TypedArray& actual, const reference::Matrix& expected,
                   double tolerance) const {
    const double error = actual.RelativeError(expected);
    EXPECT_LE(error, tolerance) << Name(dtype());
  }
  void ExpectClose(const TypedArray& actual, const reference::Matrix& expected) const {
    ExpectClose(actual, expected, Tolerance(dtype()));
  }

  using Weight = ::beamline::RandomWeight;
  Weight RandomWeight(int64_t out_features, int64_t in_features) {
    return MakeRandomWeight(backend(), dtype(), out_features, in_features, random_);
  }

  static inline Backend* backend_ = nullptr;
  std::mt19937 random_;
  unsigned seed_ = 0;
};

}  // namespace beamline
