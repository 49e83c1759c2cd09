// Products of more rows than the skinny kernels' and fewer than fill the GPU by cuBLASLt's tiles,
// in float16 and bfloat16 on Hopper (cluster_product.cu).
#pragma once

#include "kernels/backend.h"
#include "kernels/cuda/device/device.h"
#include "kernels/cuda/products/cluster_tiles.h"
#include "kernels/cuda/products/weight.h"

namespace beamline::cuda {

// The whole operator in one kernel, which has its weights before its turn. Returns false, having
// done nothing, where `tiles` has no rows or the kernel does not apply: for gates, a y of another
// type than x's, rotary embedding, an odd head_dim, in_features past what a block holds, and rows
// that do not begin at multiples of 16 bytes (x) or 4 (the others). A row's sums depend on `tiles`.
// REQUIRES: the device has_wgmma(); a 16-bit weight; no input_norm, no softcap, no norm of heads
// and no clip.
bool ClusterProduct(Device& device, const MatMulParams& params, const CudaWeight& weight,
                    const ClusterTiles& tiles);
bool ClusterProduct(Device& device, const ProjectHeadsParams& params, const CudaWeight& weight,
                    const ClusterTiles& tiles);

}  // namespace beamline::cuda
