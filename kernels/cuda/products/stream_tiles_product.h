// Products of 2 to 8 rows and a large weight on Hopper (stream_tiles.cuh).
#pragma once

#include "kernels/backend.h"
#include "kernels/cuda/device/device.h"
#include "kernels/cuda/products/stream_split.h"
#include "kernels/cuda/products/weight.h"

namespace beamline::cuda {

// Computes the whole operator in one kernel. REQUIRES: PickProduct chose kStreamTiles (and the norm
// is computed), or the device has_wgmma(), there is no softcap, and FitsStreamTiles is true for
// kStreamStepOf16Bits.
void StreamTilesProduct(Device& device, const MatMulParams& params, const CudaWeight& weight,
                        StreamSplit split = StreamSplit::kAsFits);
void StreamTilesProduct(Device& device, const ProjectHeadsParams& params, const CudaWeight& weight,
                        StreamSplit split = StreamSplit::kAsFits);

// A weight of e4m3 numbers, one byte each, and the scales of its sums: [1] for all, [out_features],
// or [out_features / 128, in_features / 128] rounded up, for blocks of 128 x 128.
struct E4m3Matrix {
  const void* data = nullptr;
  int64_t out_features = 0, in_features = 0;
  int64_t row_stride = 0;  // bytes, a multiple of 16
  Tensor scales;           // float32
};

// The same for such a weight, with kStreamStepOfE4m3. params.weight is not read.
void StreamTilesProduct(Device& device, const MatMulParams& params, const E4m3Matrix& weight,
                        StreamSplit split = StreamSplit::kAsFits);

// A weight of 4-bit numbers, in groups of 128 input features: (nibble - zero) * scale. In the 32
// bits of eight columns, nibble i is column 2 i, and nibble 4 + i is column 2 i + 1.
struct Int4Matrix {
  const void* data = nullptr;
  int64_t out_features = 0, in_features = 0;
  int64_t row_stride = 0;  // bytes, a multiple of 16
  // For each group of each row a float16 scale, a byte with its zero, and an unused byte.
  const void* groups = nullptr;
  int64_t group_stride = 0;  // groups between rows, a multiple of 4
};

// The same, with kStreamStepOfInt4.
void StreamTilesProduct(Device& device, const MatMulParams& params, const Int4Matrix& weight,
                        StreamSplit split = StreamSplit::kAsFits);

}  // namespace beamline::cuda
