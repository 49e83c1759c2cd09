// Attention of one short sequence and the product behind it in one kernel, in float16 and bfloat16
// on Hopper (attended_product.cu).
#pragma once

#include "kernels/backend.h"
#include "kernels/cuda/device/device.h"
#include "kernels/cuda/products/cluster_tiles.h"

namespace beamline::cuda {

inline constexpr int64_t kMostAttendedRows = 128;

// Whether the product behind this attention may be one kernel with it, as far as the attention
// shows that: of one sequence of at most kMostAttendedRows, packed keys, no masks, scores that are
// scaled products, heads of 64 elements.
bool MayBeAttended(const Device& device, const AttentionParams& attention);

// Computes both in one kernel, which has the product's weights before its turn. Returns false,
// having done nothing, where `tiles` has no rows or the kernel does not apply: where x is not the
// attention's output, for more heads than a block holds, and for what ClusterProduct refuses.
// REQUIRES: MayBeAttended.
bool AttendedProduct(Device& device, const AttentionParams& attention, const MatMulParams& product,
                     const ClusterTiles& tiles);
// The same with the tiles that are fastest, where that is faster than two kernels.
bool AttendedProduct(Device& device, const AttentionParams& attention, const MatMulParams& product);

}  // namespace beamline::cuda
