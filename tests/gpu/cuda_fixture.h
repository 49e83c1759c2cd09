// What the tests of kernels/cuda share that go past kernels/operators.h: one GPU for all of a
// binary's tests, random numbers with a seed that a failure prints.
#pragma once

#include <cmath>
#include <cstdio>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/epilogues/gradients.h"
#include "tests/gpu/typed_arrays.h"
#include "tests/kernels/test_gpu_memory.h"
#include "tests/test_seed.h"

namespace beamline {

// A matrix on the device whose rows are `stride` elements apart, and its rounded values in float64.
// `values` may have more rows than the matrix: what stands past its end.
class StridedMatrix {
 public:
  StridedMatrix(Backend& backend, DType dtype, int64_t rows, int64_t cols, int64_t stride,
                std::vector<float> values)
      : rows_(rows),
        cols_(cols),
        stride_(stride),
        array_(backend, dtype, static_cast<int64_t>(values.size()) / stride, stride, values) {}

  Tensor tensor() const { return array_.device().First(rows_).Columns(0, cols_); }
  double at(int64_t r, int64_t c) const { return array_.host()[r * stride_ + c]; }
  void Upload() const { array_.Upload(); }
  int64_t stride() const { return stride_; }

  // ||device - expected|| / ||expected||; infinite for a NaN, when a number between the rows is no
  // longer the NaN of a poisoned matrix, and when one past the end is not what it was.
  double RelativeError(const reference::Matrix& expected) const {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    const std::vector<float> actual = array_.Read();
    double error = 0, norm = 0;
    for (int64_t r = 0; r < rows_; ++r) {
      for (int64_t c = 0; c < stride_; ++c) {
        const double value = actual[r * stride_ + c];
        if (c >= cols_) {
          if (!std::isnan(value)) return kInfinity;
          continue;
        }
        error += (value - expected.at(r, c)) * (value - expected.at(r, c));
        norm += expected.at(r, c) * expected.at(r, c);
      }
    }
    for (size_t i = rows_ * stride_; i < actual.size(); ++i) {
      if (actual[i] != array_.host()[i]) return kInfinity;
    }
    const double relative = std::sqrt(error / (norm > 0 ? norm : 1.0));
    return std::isnan(relative) ? kInfinity : relative;
  }

 private:
  int64_t rows_, cols_, stride_;
  TypedArray array_;
};

class CudaTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    auto backend = cuda::CudaBackend::Create(0, kTestGpuMemory);
    ASSERT_TRUE(backend.ok()) << backend.status();
    backend_ = std::move(*backend).release();
    backend_->products().set_gradients(cuda::Gradients());
  }
  static void TearDownTestSuite() {
    delete backend_;
    backend_ = nullptr;
  }
  void SetUp() override {
    ASSERT_NE(backend_, nullptr) << "the CUDA backend did not open";
    device().BeginOperator();
    seed_ = TestSeed();
    random_.seed(seed_);
  }
  void TearDown() override {
    if (HasFailure()) std::fprintf(stderr, "seed %u\n", seed_);
    if (backend_ == nullptr) return;
    EXPECT_TRUE(backend_->Synchronize().ok());
  }

  cuda::CudaBackend& backend() { return *backend_; }
  cuda::Device& device() { return backend_->device(); }
  cuda::LtMatMul& products() { return backend_->products(); }
  std::mt19937& random() { return random_; }

  std::vector<float> Normal(int64_t count, float scale = 1.0f) {
    std::normal_distribution<float> normal(0.0f, scale);
    std::vector<float> values(count);
    for (float& value : values) value = normal(random_);
    return values;
  }
  StridedMatrix RandomMatrix(DType dtype, int64_t rows, int64_t cols, int64_t stride,
                             float scale = 1.0f) {
    return {backend(), dtype, rows, cols, stride, Normal(rows * stride, scale)};
  }
  // Full of NaN, so that an element that is not written shows.
  StridedMatrix Poisoned(DType dtype, int64_t rows, int64_t cols, int64_t stride) {
    return {backend(), dtype,
            rows,      cols,
            stride,    std::vector<float>(rows * stride, std::numeric_limits<float>::quiet_NaN())};
  }

 private:
  static inline cuda::CudaBackend* backend_ = nullptr;
  std::mt19937 random_;
  unsigned seed_ = 0;
};

class CudaTypedTest : public CudaTest, public testing::WithParamInterface<DType> {
 protected:
  DType dtype() const { return GetParam(); }
};

// Of kernels that need wgmma.
class HopperTypedTest : public CudaTypedTest {
 protected:
  void SetUp() override {
    CudaTypedTest::SetUp();
    if (!device().has_wgmma()) GTEST_SKIP() << "the GPU is not Hopper's";
  }
  int RandomInt(int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random());
  }
};

}  // namespace beamline
