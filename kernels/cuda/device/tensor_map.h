// Descriptions of matrices in device memory for the copy engine of Hopper (hopper.cuh).
#pragma once

#include <cuda.h>

#include <cstdint>

#include "kernels/cuda/device/device.h"

namespace beamline::cuda {

// Rows of 16-bit elements, several heads side by side in each, which are copied in boxes. A box may
// have fewer rows than box_rows: where a sequence ends, what lies behind it is another's.
struct RaggedRows {
  const void* data = nullptr;
  int head_dim = 0;
  int num_heads = 0;   // beside each other in a row
  int64_t stride = 0;  // elements between rows
  int64_t num_rows = 0;
  int box_heads = 0;
  int box_rows = 0;
};

// The map has two dimensions for rows, of the same stride: the row within a box, which ends at
// box_rows, and the row among all. The box of `count` rows from row `first` on has coordinates
// (column, head, box_rows - count, first + count). Its rows past `count` are past the end of the
// first of these dimensions, so they are not read and arrive as zeros: no neighbour's numbers come
// along. Boxes are 64 columns wide and permuted by 128 bytes (hopper.cuh). All zero after a fault
// of the device.
CUtensorMap MakeRaggedMap(Device& device, const RaggedRows& rows);

// Rows of 16-bit elements without a gap between them, which are copied whole, in boxes of
// box_groups groups of eight. In shared memory a group is its first 64 columns, eight rows of 128
// permuted bytes, then its next 64, and so on, and groups follow each other.
struct GroupedRows {
  const void* data = nullptr;
  int num_columns = 0;  // a multiple of 64
  int64_t num_rows = 0;
  int box_groups = 0;  // at most 256
};

// The box that begins at row 8 i has coordinates (0, 0, 0, i). All zero after a fault of the
// device.
CUtensorMap MakeGroupedMap(Device& device, const GroupedRows& rows);

// The same in boxes of one group that may have fewer rows: the box of `count` rows from row `first`
// on has coordinates (0, 8 - count, 0, first + count), and zeros for the rows past `count`, as in
// MakeRaggedMap. box_groups does not matter.
CUtensorMap MakeRaggedGroupMap(Device& device, const GroupedRows& rows);

// A matrix of 16-bit elements that is copied in boxes of box_rows rows by 64 columns, permuted by
// 128 bytes. What a box has past the matrix arrives as zeros, and is not written.
struct MatrixRows {
  const void* data = nullptr;  // at a multiple of 16 bytes
  int64_t num_rows = 0;
  int64_t num_columns = 0;
  int64_t stride = 0;  // elements between rows, a multiple of 16 bytes
  int box_rows = 0;    // at most 256
};

// All zero after a fault of the device.
CUtensorMap MakeMatrixMap(Device& device, const MatrixRows& rows);

}  // namespace beamline::cuda
