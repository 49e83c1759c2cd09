// How the product of wgmma_product.h cuts y into tiles.
#pragma once

#include <cstdint>

namespace beamline::cuda {

// The kernel's tiles of y: 128 rows by so many columns.
enum class WgmmaTiles : uint8_t {
  kNone,    // too few rows: cuBLASLt and the pass
  kNarrow,  // 128: where wide ones would leave multiprocessors idle
  kWide,    // 192, in clusters of two blocks that share the weight's tiles
};

// Which tiles compute a product on a GPU with so many multiprocessors. Pure: no device is asked.
WgmmaTiles PickWgmmaTiles(int64_t num_rows, int64_t out_features, int num_multiprocessors);

}  // namespace beamline::cuda
