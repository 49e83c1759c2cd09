// How the product of wgmma_product.h divides y into tiles.
#pragma once

#include <cstdint>

namespace beamline::cuda {

// The kernel's tiles of y: 128 rows by the columns below.
enum class WgmmaTiles : uint8_t {
  kNone,    // too few rows: cuBLASLt and the pass
  kNarrow,  // 128 columns, if wide tiles would leave multiprocessors idle
  kWide,    // 192 columns, in clusters of two blocks that share the weight's tiles
};

// The tiles of a product on a GPU with num_multiprocessors. Pure: it asks no device.
WgmmaTiles PickWgmmaTiles(int64_t num_rows, int64_t out_features, int num_multiprocessors);

}  // namespace beamline::cuda
