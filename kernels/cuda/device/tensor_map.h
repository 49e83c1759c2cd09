// Descriptions of matrices in device memory for the copy engine of Hopper (hopper.cuh).
#pragma once

#include <cuda.h>

#include <cstdint>

#include "kernels/cuda/device/device.h"

namespace beamline::cuda {

// Rows of 16-bit elements, each of several heads, of which boxes are copied whose last rows may be
// missing: a sequence ends, and what lies behind it is another's.
struct RaggedRows {
  const void* data = nullptr;
  int head_dim = 0;
  int num_heads = 0;   // beside each other in a row
  int64_t stride = 0;  // elements between rows
  int64_t num_rows = 0;
  int box_heads = 0;
  int box_rows = 0;
};

// The map has the rows twice, as dimensions of the same stride: the box's own, which ends at
// box_rows, and the position of all. The box of `count` rows from row `first` on has coordinates
// (column, head, box_rows - count, first + count): what is past `count` is past the end of its
// dimension, is not read and arrives as zeros, so that no neighbour's numbers come along. Boxes are
// 64 columns wide and permuted by 128 bytes. Zeros after a fault of the device.
CUtensorMap MakeRaggedMap(Device& device, const RaggedRows& rows);

}  // namespace beamline::cuda
