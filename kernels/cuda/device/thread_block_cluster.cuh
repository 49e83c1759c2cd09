// Thread block clusters: the blocks of a cluster run on the same processor cluster, and read and
// write each other's shared memory. Code for sm_90 and newer. A kernel that uses them is not
// launched if the GPU runs older code (Device::code_architecture).
#pragma once

#include <cuda_runtime_api.h>

namespace beamline::cuda {

// Shared memory written before ClusterArrive() can be read by every block after ClusterWait().
// Every thread of the cluster that has not ended calls both.
__device__ inline void ClusterArrive() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.release;\n" ::: "memory");
#endif
}
// The same for threads that have written nothing that other blocks read. It does not wait for their
// writes.
__device__ inline void ClusterArriveRelaxed() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.relaxed;\n" ::: "memory");
#endif
}
__device__ inline void ClusterWait() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.wait.acquire;\n" ::: "memory");
#endif
}

// The address of the shared variable `shared` in the block of the cluster with this rank.
template <typename T>
__device__ T* OfBlock(T& shared, int rank) {
#if __CUDA_ARCH__ >= 900
  return static_cast<T*>(__cluster_map_shared_rank(&shared, static_cast<unsigned>(rank)));
#else
  return &shared;
#endif
}

// The value of the shared variable `shared` in the block of the cluster with this rank.
template <typename T>
__device__ T ReadFromBlock(T& shared, int rank) {
  return *OfBlock(shared, rank);
}

}  // namespace beamline::cuda
