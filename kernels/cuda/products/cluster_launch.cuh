// What the launchers of clusters' products share: cluster_product.cu and attended_product.cu.
#pragma once

#include "kernels/cuda/device/device.h"
#include "kernels/cuda/products/cluster_output.cuh"
#include "kernels/cuda/products/weight.h"

namespace beamline::cuda {

// Whether rows begin at multiples of `bytes`.
inline bool IsAlignedTo(const Tensor& tensor, int64_t bytes) {
  return tensor.empty() ||
         (reinterpret_cast<uintptr_t>(tensor.data) % bytes == 0 &&
          tensor.row_stride * static_cast<int64_t>(SizeOf(tensor.dtype)) % bytes == 0);
}

template <typename T>
ClusterMatMul<T> MakeClusterOutput(const MatMulParams& params) {
  return {params.bias.data,
          params.residual.as<T>(),
          params.y.as<T>(),
          params.residual.row_stride,
          params.y.row_stride,
          static_cast<int>(params.y.dim(-1)),
          params.bias.dtype == DType::kFloat32,
          params.activation};
}

inline bool SuitsCluster(const MatMulParams& params) {
  return !params.gated && params.y.dtype == params.x.dtype && IsAlignedTo(params.y, 4) &&
         (params.residual.empty() || params.residual.dtype == params.x.dtype) &&
         IsAlignedTo(params.residual, 4);
}

// Launches `kernel` in clusters of grid.x blocks, with blocks of `threads` threads and shared_bytes
// of dynamic shared memory; it starts early (launch.cuh). Faults, which `what` names, are the
// device's.
template <typename... Params, typename... Args>
void LaunchInClusters(Device& device, const char* what, void (*kernel)(Params...), dim3 grid,
                      int threads, int64_t shared_bytes, const Args&... args) {
  device.Check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    static_cast<int>(device.properties().sharedMemPerBlockOptin)),
               what);
  cudaLaunchAttribute attributes[2] = {};
  attributes[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[0].val.programmaticStreamSerializationAllowed = 1;
  attributes[1].id = cudaLaunchAttributeClusterDimension;
  attributes[1].val.clusterDim.x = grid.x;
  attributes[1].val.clusterDim.y = attributes[1].val.clusterDim.z = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = grid;
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.dynamicSmemBytes = static_cast<size_t>(shared_bytes);
  config.stream = device.stream();
  config.attrs = attributes;
  config.numAttrs = 2;
  if (device.ok()) device.Check(cudaLaunchKernelEx(&config, kernel, args...), what);
}

}  // namespace beamline::cuda
