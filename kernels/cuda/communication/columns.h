// A matrix whose columns lie on several ranks, between its places and the buffers that travel.
#pragma once

#include <cstdint>

#include "base/math.h"
#include "kernels/cuda/device/device.h"
#include "kernels/tensor.h"

namespace beamline::cuda {

// Rank r of num_ranks has the columns Begin(r) .. Begin(r + 1).
struct Columns {
  int64_t num_rows = 0;
  int64_t width = 0;  // of all together
  int64_t num_ranks = 1;

  constexpr int64_t Begin(int64_t rank) const { return width * rank / num_ranks; }
  constexpr int64_t Width(int64_t rank) const { return Begin(rank + 1) - Begin(rank); }
  constexpr int64_t MostWidth() const { return CeilDiv(width, num_ranks); }
  constexpr bool are_even() const { return width % num_ranks == 0; }
};

// packed = the rows of `part`, MostWidth() elements each, the rest 0.
void PackColumns(Device& device, const Tensor& part, const Columns& columns, void* packed);
// whole = what PackColumns made of each rank's part, one rank behind the other.
void UnpackColumns(Device& device, const void* packed, const Columns& columns, const Tensor& whole);

}  // namespace beamline::cuda
