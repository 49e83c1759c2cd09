// A random weight on the GPU, with its values after rounding, and what a product with it is.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <random>
#include <utility>

#include "kernels/backend.h"
#include "tests/gpu/typed_arrays.h"
#include "tests/kernels/reference_ops.h"

namespace beamline {

struct RandomWeight {
  std::unique_ptr<PackedWeight> packed;
  reference::Matrix values;  // [out_features, in_features]
};

// Of a size that keeps a product's results near its operands'.
inline RandomWeight MakeRandomWeight(Backend& backend, DType dtype, int64_t out_features,
                                     int64_t in_features, std::mt19937& random) {
  const TypedArray array =
      TypedArray::Random(backend, dtype, out_features, in_features,
                         1.0f / std::sqrt(static_cast<float>(in_features)), random);
  const HostMatrix part = {.data = array.host().data(), .rows = out_features, .cols = in_features};
  auto packed = backend.PackWeight({&part, 1}, dtype);
  EXPECT_TRUE(packed.ok()) << packed.status();
  reference::Matrix values(out_features, in_features);
  std::copy(array.host().begin(), array.host().end(), values.values.begin());
  return {*std::move(packed), std::move(values)};
}

// The float64 twin of a product of `rows` rows: x.at(row, feature) as the weight has input
// features. No bias, no residual where they are null.
template <typename Rows, typename Residual>
reference::Matrix ExpectedProduct(int64_t rows, const Rows& x, const RandomWeight& weight,
                                  const TypedArray* bias, Activation activation,
                                  const Residual* residual) {
  const reference::Matrix& w = weight.values;
  reference::Matrix expected(rows, w.rows);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < w.rows; ++c) {
      double sum = bias != nullptr ? bias->host()[c] : 0.0;
      for (int64_t k = 0; k < w.cols; ++k) sum += x.at(r, k) * w.at(c, k);
      expected.at(r, c) = reference::Activate(activation, sum);
      if (residual != nullptr) expected.at(r, c) += residual->at(r, c);
    }
  }
  return expected;
}

}  // namespace beamline
