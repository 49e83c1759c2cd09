// Products of more rows than the skinny kernels take, and fewer than fill the GPU with cuBLASLt's
// tiles, in float16 and bfloat16 on Hopper (cluster_product.cu).
#pragma once

#include "kernels/backend.h"
#include "kernels/cuda/device/device.h"
#include "kernels/cuda/products/cluster_tiles.h"
#include "kernels/cuda/products/weight.h"

namespace beamline::cuda {

// Computes the whole operator in one kernel, which loads its weights before WaitForEarlierKernels.
// A row's sums depend on `tiles`, of which a block has at most kMostClusterSteps steps. REQUIRES:
// PickProduct chose kCluster, or the device has_wgmma(), the weight has 16 bits, and FitsCluster;
// no input_norm, no softcap.
void ClusterProduct(Device& device, const MatMulParams& params, const CudaWeight& weight,
                    const ClusterTiles& tiles);
void ClusterProduct(Device& device, const ProjectHeadsParams& params, const CudaWeight& weight,
                    const ClusterTiles& tiles);

}  // namespace beamline::cuda
