// Packs and unpacks a matrix whose columns are divided over ranks, for the buffers that are sent.
#pragma once

#include <cstdint>

#include "base/math.h"
#include "kernels/cuda/device/device.h"
#include "kernels/tensor.h"

namespace beamline::cuda {

// Rank r of num_ranks has the columns Begin(r) .. Begin(r + 1).
struct Columns {
  int64_t num_rows = 0;
  int64_t width = 0;  // columns of all ranks together
  int64_t num_ranks = 1;

  constexpr int64_t Begin(int64_t rank) const { return width * rank / num_ranks; }
  constexpr int64_t Width(int64_t rank) const { return Begin(rank + 1) - Begin(rank); }
  constexpr int64_t MostWidth() const { return CeilDiv(width, num_ranks); }
  constexpr bool are_even() const { return width % num_ranks == 0; }
};

// packed = the rows of `part`, each padded with zeros to MostWidth() elements.
void PackColumns(Device& device, const Tensor& part, const Columns& columns, void* packed);
// whole = the columns of all ranks. `packed`: the output of PackColumns on each rank, in rank
// order.
void UnpackColumns(Device& device, const void* packed, const Columns& columns, const Tensor& whole);

}  // namespace beamline::cuda
