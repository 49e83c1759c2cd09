// A random weight on the GPU, with its values after rounding.
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

}  // namespace beamline
