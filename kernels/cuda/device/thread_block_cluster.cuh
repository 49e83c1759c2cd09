// Thread block clusters: the blocks of one share a processor cluster and read and write each
// other's shared memory. Code for sm_90 and newer; a kernel that uses them is not launched where
// the GPU runs older code (Device::code_architecture).
#pragma once

#include <cuda_runtime_api.h>

namespace beamline::cuda {

// Shared memory written before ClusterArrive() can be read by every block after ClusterWait(). Each
// thread of each block that has not ended calls both.
__device__ inline void ClusterArrive() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.release;\n" ::: "memory");
#endif
}
// The same for those who have written nothing that others read, without the wait for what they
// wrote.
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

// Where the shared variable `shared` lies in the block of the cluster with this rank.
template <typename T>
__device__ T* OfBlock(T& shared, int rank) {
#if __CUDA_ARCH__ >= 900
  return static_cast<T*>(__cluster_map_shared_rank(&shared, static_cast<unsigned>(rank)));
#else
  return &shared;
#endif
}

// The value that the shared variable `shared` has in the block of the cluster with this rank.
template <typename T>
__device__ T ReadFromBlock(T& shared, int rank) {
  return *OfBlock(shared, rank);
}

}  // namespace beamline::cuda
