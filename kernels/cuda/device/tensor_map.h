// Tensor maps: descriptions of matrices in device memory for the copy engine of Hopper
// (hopper.cuh).
#pragma once

#include <cuda.h>

#include <cstdint>

#include "kernels/cuda/device/device.h"

namespace beamline::cuda {

// Rows of 16-bit elements, with several heads side by side in each, which are copied in boxes. A
// box may have fewer rows than box_rows: the rows after the end of a sequence are another
// sequence's.
struct RaggedRows {
  const void* data = nullptr;
  int head_dim = 0;
  int num_heads = 0;   // side by side in a row
  int64_t stride = 0;  // elements between rows
  int64_t num_rows = 0;
  int box_heads = 0;
  int box_rows = 0;
};

// The map has two dimensions for rows, of the same stride: the row within a box, of size box_rows,
// and the row among all. The box of `count` rows from row `first` on has coordinates (column, head,
// box_rows - count, first + count). Its rows after `count` are out of bounds in the first of these
// dimensions. So they are not read and arrive as zeros: no number of another sequence is copied.
// Boxes are 64 columns wide with the 128-byte swizzle (hopper.cuh). All zero after a fault of the
// device.
CUtensorMap MakeRaggedMap(Device& device, const RaggedRows& rows);

// Contiguous rows of 16-bit elements, copied whole, in boxes of box_groups groups of eight rows. In
// shared memory a group is its first 64 columns, eight rows of 128 swizzled bytes, then its next
// 64, and so on. Groups follow each other.
struct GroupedRows {
  const void* data = nullptr;
  int num_columns = 0;  // a multiple of 64
  int64_t num_rows = 0;
  int box_groups = 0;  // at most 256
};

// The box that starts at row 8 i has coordinates (0, 0, 0, i). All zero after a fault of the
// device.
CUtensorMap MakeGroupedMap(Device& device, const GroupedRows& rows);

// The same in boxes of one group that may have fewer rows. The box of `count` rows from row `first`
// on has coordinates (0, 8 - count, 0, first + count). Its rows after `count` are zeros, as in
// MakeRaggedMap. box_groups is ignored.
CUtensorMap MakeRaggedGroupMap(Device& device, const GroupedRows& rows);

// A matrix of 16-bit elements, copied in boxes of box_rows rows by 64 columns with the 128-byte
// swizzle. Elements of a box outside the matrix arrive as zeros, and are not written.
struct MatrixRows {
  const void* data = nullptr;  // aligned to 16 bytes
  int64_t num_rows = 0;
  int64_t num_columns = 0;
  int64_t stride = 0;  // elements between rows, a multiple of 16 bytes
  int box_rows = 0;    // at most 256
};

// All zero after a fault of the device.
CUtensorMap MakeMatrixMap(Device& device, const MatrixRows& rows);

}  // namespace beamline::cuda
