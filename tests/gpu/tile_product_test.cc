// Products with their epilogue on Hopper's tensor cores, against the float64 twin.
#include "kernels/cuda/epilogues/tile_product.h"

#include <unistd.h>

#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "kernels/cuda/epilogues/algorithm_file.h"
#include "kernels/cuda/epilogues/column_sums.h"
#include "kernels/cuda/epilogues/lt_call.h"
#include "kernels/cuda/epilogues/lt_matmul.h"
#include "tests/gpu/cuda_fixture.h"
#include "tests/gpu/lt_case.h"
#include "tests/kernels/small_cases.h"

namespace beamline::tile_product_test {
namespace {

constexpr LtEpilogue kEpilogues[] = {LtEpilogue::kNone,  LtEpilogue::kBias,
                                     LtEpilogue::kRelu,  LtEpilogue::kReluBias,
                                     LtEpilogue::kDRelu, LtEpilogue::kDReluBgrad};

class TileProductTest : public CudaTypedTest {
 protected:
  void SetUp() override {
    CudaTypedTest::SetUp();
    if (!device().has_wgmma()) GTEST_SKIP() << "the GPU is not Hopper's";
  }
  int RandomInt(int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random());
  }
  void Run(const LtProduct& product) {
    ASSERT_TRUE(cuda::HasTileProduct(device(), product));
    device().BeginOperator();
    const int64_t num_partials = cuda::NumTilePartials(product);
    float* partials = nullptr;
    if (num_partials > 0) {
      const auto count = static_cast<size_t>(num_partials * product.n());
      partials = device().TakeScratch<float>(count);
      // Every one of them is written.
      device().Check(cudaMemsetAsync(partials, 0xff, count * sizeof(float), device().stream()),
                     "cudaMemset");
    }
    cuda::TileProduct(device(), product, partials, device().stream());
    if (num_partials > 0) {
      cuda::SumPartials(device(), partials, num_partials, product.bias, device().stream());
    }
    ASSERT_TRUE(device().Synchronize().ok()) << device().status();
  }
};
INSTANTIATE_TEST_SUITE_P(Types, TileProductTest, testing::Values(DType::kFloat16, DType::kBFloat16),
                         DTypeName);

TEST_P(TileProductTest, EveryShape) {
  std::vector<Shape> all = {{1, 8, 8},       {128, 256, 64},  {129, 264, 65}, {300, 520, 72},
                            {300, 264, 257}, {257, 1000, 24}, {1, 72, 1000},  {2500, 8, 8}};
  for (int i = 0; i < 3; ++i) {
    all.push_back({RandomInt(1, 500), 8 * RandomInt(1, 50), RandomInt(1, 150)});
  }
  for (const Shape& shape : Cases(all, {all[0], all[2], all[6]})) {
    for (const LtEpilogue epilogue : kEpilogues) {
      for (const int transposes : {0, 2}) {
        const Layout layout = {.padding = 8 * RandomInt(0, 2), .rows_past = RandomInt(0, 3)};
        Case c(backend(), dtype(), shape, epilogue, transposes, random(), layout);
        SCOPED_TRACE(testing::Message() << shape.m << " x " << shape.n << " x " << shape.k << " "
                                        << Name(epilogue) << " transposes " << transposes);
        ASSERT_NO_FATAL_FAILURE(Run(c.product));
        c.ExpectResults(backend());
      }
    }
  }
}

// More tiles than multiprocessors have in one turn, in several panels, of an uneven number.
TEST_P(TileProductTest, ManyTiles) {
  Case c(backend(), dtype(), {3000, 2600, 72}, LtEpilogue::kDReluBgrad, 0, random());
  ASSERT_NO_FATAL_FAILURE(Run(c.product));
  c.ExpectResults(backend());
}

TEST_P(TileProductTest, ScalesByAlpha) {
  Case c(backend(), dtype(), {200, 264, 40}, LtEpilogue::kNone, 0, random());
  Case twice(backend(), dtype(), {200, 264, 40}, LtEpilogue::kNone, 0, random());
  twice.product.a = c.product.a;
  twice.product.b = c.product.b;
  twice.product.alpha = -2.0f;
  ASSERT_NO_FATAL_FAILURE(Run(c.product));
  ASSERT_NO_FATAL_FAILURE(Run(twice.product));
  reference::Matrix expected = c.Inner(false);
  for (double& value : expected.values) value *= -2;
  EXPECT_LE(twice.d.RelativeError(expected), Tolerance(dtype()));
}

// The sums' bits too.
TEST_P(TileProductTest, RunsAlike) {
  Case c(backend(), dtype(), {3000, 520, 136}, LtEpilogue::kDReluBgrad, 0, random());
  ASSERT_NO_FATAL_FAILURE(Run(c.product));
  const std::vector<float> sums = c.bias.Read();
  for (int repeat = 0; repeat < 3; ++repeat) {
    ASSERT_NO_FATAL_FAILURE(Run(c.product));
    EXPECT_EQ(c.bias.Read(), sums);
  }
}

// As cuBLASLt computes it, and the mask, which takes what it does not let through.
TEST_P(TileProductTest, NaNStaysWhereItIsNotMasked) {
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  const Shape s = {130, 264, 72};
  std::vector<float> values(s.m * s.k, 0.5f);
  values[5 * s.k + 3] = kNaN;
  const StridedMatrix a(backend(), dtype(), s.m, s.k, s.k, values);
  for (const LtEpilogue epilogue : {LtEpilogue::kReluBias, LtEpilogue::kDRelu}) {
    Case c(backend(), dtype(), s, epilogue, 0, random());
    const TypedArray output = TypedArray::Poisoned(backend(), dtype(), s.m, s.n);
    c.product.a = a.tensor();
    c.product.d = output.device();
    SCOPED_TRACE(Name(epilogue));
    ASSERT_NO_FATAL_FAILURE(Run(c.product));
    const std::vector<float> d = output.Read();
    for (int64_t i = 0; i < s.m; ++i) {
      for (int64_t j = 0; j < s.n; ++j) {
        const bool expected = i == 5 && (epilogue != LtEpilogue::kDRelu || c.MaskBit(i, j));
        ASSERT_EQ(std::isnan(d[i * s.n + j]), expected) << "row " << i << ", column " << j;
      }
    }
  }
}

// A choice that the file has; and one for a product that the kernel does not compute.
TEST_P(TileProductTest, IsChosenByTheFile) {
  const std::string file = testing::TempDir() + "tile_product_" + std::to_string(getpid());
  std::filesystem::remove(file);
  Case fits(backend(), dtype(), {300, 264, 72}, LtEpilogue::kDReluBgrad, 2, random());
  Case other(backend(), dtype(), {300, 264, 72}, LtEpilogue::kDReluBgrad, 1, random());
  cuda::AlgorithmFile choices(file, device().properties().name, cublasLtGetVersion());
  constexpr cuda::AlgorithmBits kTiles = {~uint64_t{0}};
  ASSERT_TRUE(choices.Add(cuda::KeyOf(fits.product), kTiles).ok());
  ASSERT_TRUE(choices.Add(cuda::KeyOf(other.product), kTiles).ok());
  const auto lt = cuda::LtMatMul::Create(device(), file);
  ASSERT_TRUE(lt.ok()) << lt.status();
  for (Case* c : {&fits, &other}) {
    device().BeginOperator();
    const absl::Status status = (*lt)->Run(c->product);
    ASSERT_TRUE(status.ok()) << status;
    c->ExpectResults(backend());
    EXPECT_EQ((*lt)->num_recalled(), 1);
  }
  EXPECT_GE((*lt)->num_measured(), 1);  // and the plain product, of the split form
  std::filesystem::remove(file);
}

TEST_P(TileProductTest, WhatItDoesNotCompute) {
  const Case c(backend(), dtype(), {64, 64, 64}, LtEpilogue::kNone, 0, random());
  const LtProduct& fine = c.product;
  const auto has = [&](auto change) {
    LtProduct product = fine;
    change(product);
    return cuda::HasTileProduct(device(), product);
  };
  EXPECT_TRUE(has([](LtProduct&) {}));
  EXPECT_FALSE(has([](LtProduct& p) { p.transpose_a = true; }));
  EXPECT_FALSE(has([](LtProduct& p) { p.c = p.d; }));
  EXPECT_FALSE(has([](LtProduct& p) { p.d.dtype = DType::kFloat32; }));
  EXPECT_FALSE(has([](LtProduct& p) { p.d.dims[1] = p.b.dims[1] = 60; }));
  EXPECT_FALSE(has([](LtProduct& p) { p.a.data = static_cast<char*>(p.a.data) + 2; }));
  EXPECT_FALSE(has([](LtProduct& p) { p.b.row_stride += 4; }));
  EXPECT_FALSE(has([](LtProduct& p) { p.epilogue = LtEpilogue::kGelu; }));
}

}  // namespace
}  // namespace beamline::tile_product_test
