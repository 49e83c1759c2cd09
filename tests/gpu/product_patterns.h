// What every kernel for products shall hold, whatever it is called with.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "kernels/cuda/products/weight.h"
#include "tests/gpu/random_weight.h"
#include "tests/gpu/typed_arrays.h"

namespace beamline {

inline const cuda::CudaWeight& CudaOf(const RandomWeight& weight) {
  return static_cast<const cuda::CudaWeight&>(*weight.packed);
}

// In a chain, where a kernel copies its weights while the one before it runs, results are those of
// each kernel by itself, bit by bit. `multiply` takes a product's operands, x of `rows` rows being
// its residual too, and its weight [width, width].
template <typename Multiply>
void ExpectAChainOfTheSameBits(Backend& backend, const std::vector<RandomWeight>& weights,
                               const TypedArray& x, const std::vector<TypedArray>& hidden,
                               int rounds, Multiply multiply) {
  const auto run = [&](bool in_turn) {
    for (const TypedArray& array : hidden) array.Upload();
    for (size_t i = 0; i < weights.size(); ++i) {
      MatMulParams params;
      params.x = i == 0 ? x.device() : hidden[i - 1].device();
      params.weight = weights[i].packed.get();
      params.residual = params.x;
      params.y = hidden[i].device();
      multiply(params, CudaOf(weights[i]));
      if (in_turn) {
        EXPECT_TRUE(backend.Synchronize().ok());
      }
    }
    return hidden.back().Read();
  };
  const std::vector<float> in_turn = run(true);
  for (const float value : in_turn) ASSERT_FALSE(std::isnan(value));
  for (int round = 0; round < rounds; ++round) ASSERT_EQ(run(false), in_turn);
}

// What is not a number stays in its row.
template <typename Multiply>
void ExpectNaNInItsRowAlone(Backend& backend, const RandomWeight& weight, DType dtype, int rows,
                            std::mt19937& random, Multiply multiply) {
  const auto width = static_cast<int>(weight.values.cols);
  const int broken = std::uniform_int_distribution<int>(0, rows - 1)(random);
  std::vector<float> values(int64_t{rows} * width);
  for (float& value : values) value = std::normal_distribution<float>()(random);
  std::fill_n(values.begin() + int64_t{broken} * width, width,
              std::numeric_limits<float>::quiet_NaN());
  const TypedArray x(backend, dtype, rows, width, values);
  const TypedArray y = TypedArray::Poisoned(backend, dtype, rows, weight.values.rows);
  MatMulParams params;
  params.x = x.device();
  params.weight = weight.packed.get();
  params.y = y.device();
  multiply(params, CudaOf(weight));
  const std::vector<float> actual = y.Read();
  for (size_t i = 0; i < actual.size(); ++i) {
    ASSERT_EQ(std::isnan(actual[i]), static_cast<int64_t>(i) / weight.values.rows == broken)
        << "element " << i;
  }
}

}  // namespace beamline
