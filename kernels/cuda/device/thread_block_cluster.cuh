// Thread block clusters: the blocks of one share a processor cluster and read each other's shared
// memory. Code for sm_90 and newer; a kernel that uses them is not launched where the GPU
// runs older code (Device::code_architecture).
#pragma once

#include <cooperative_groups.h>

namespace beamline::cuda {

// Shared memory written before ClusterArrive() can be read by every block after ClusterWait(). Each
// thread of each block calls both.
__device__ inline void ClusterArrive() {
#if __CUDA_ARCH__ >= 900
  cooperative_groups::this_cluster().barrier_arrive();
#endif
}
__device__ inline void ClusterWait() {
#if __CUDA_ARCH__ >= 900
  cooperative_groups::this_cluster().barrier_wait();
#endif
}

// The value that the shared variable `shared` has in the block of the cluster with this rank.
template <typename T>
__device__ T ReadFromBlock(T& shared, int rank) {
#if __CUDA_ARCH__ >= 900
  return *cooperative_groups::this_cluster().map_shared_rank(&shared, rank);
#else
  return shared;
#endif
}

}  // namespace beamline::cuda
