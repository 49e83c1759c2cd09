// Products of 2 to 8 rows and a large weight on Hopper (stream_tiles.cuh).
#pragma once

#include "kernels/backend.h"
#include "kernels/cuda/device/device.h"
#include "kernels/cuda/products/stream_split.h"
#include "kernels/cuda/products/weight.h"

namespace beamline::cuda {

// The whole operator in one kernel. REQUIRES: PickProduct chose kStreamTiles (and the norm is
// computed), or the device has_wgmma(), there is no softcap, and FitsStreamTiles says so for
// kStreamStepOf16Bits.
void StreamTilesProduct(Device& device, const MatMulParams& params, const CudaWeight& weight,
                        StreamSplit split = StreamSplit::kAsFits);
void StreamTilesProduct(Device& device, const ProjectHeadsParams& params, const CudaWeight& weight,
                        StreamSplit split = StreamSplit::kAsFits);

// A weight of one byte a number, e4m3, and what multiplies the sums: [1] of all, [out_features],
// or [out_features / 128, in_features / 128] rounded up, of blocks of 128 x 128.
struct E4m3Matrix {
  const void* data = nullptr;
  int64_t out_features = 0, in_features = 0;
  int64_t row_stride = 0;  // bytes, a multiple of 16
  Tensor scales;           // float32
};

// The same of such a weight, of kStreamStepOfE4m3: params.weight is not read.
void StreamTilesProduct(Device& device, const MatMulParams& params, const E4m3Matrix& weight,
                        StreamSplit split = StreamSplit::kAsFits);

// A weight of half a byte a number, by groups of 128 input features: (nibble - zero) * scale. Of
// eight columns' 32 bits, nibble i is column 2 i, and nibble 4 + i column 2 i + 1.
struct Int4Matrix {
  const void* data = nullptr;
  int64_t out_features = 0, in_features = 0;
  int64_t row_stride = 0;  // bytes, a multiple of 16
  // Of each row's groups a float16, the byte of its zero, and a byte that does not matter.
  const void* groups = nullptr;
  int64_t group_stride = 0;  // groups between rows, a multiple of 4
};

// The same, of kStreamStepOfInt4.
void StreamTilesProduct(Device& device, const MatMulParams& params, const Int4Matrix& weight,
                        StreamSplit split = StreamSplit::kAsFits);

}  // namespace beamline::cuda
