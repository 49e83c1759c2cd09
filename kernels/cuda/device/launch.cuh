// Kernels that start while the one before them in the stream still runs (programmatic dependent
// launch), so that a step's launches and first weights overlap with what came before. Where the
// kernels were compiled for less than sm_90 they start in turn.
//
// A kernel launched by LaunchOverlapped calls WaitForEarlierKernels before it reads or writes
// anything that a kernel or transfer of the stream touches: weights may be prefetched before,
// into L2 alone, and it does not return before.
#pragma once

#include <cuda_runtime_api.h>

#include <utility>

#include "kernels/cuda/device/device.h"
#include "kernels/cuda/device/scalar.cuh"

namespace beamline::cuda {

// Returns when everything that the stream had before this kernel is done and visible. From then on
// the kernel after this one may come to the multiprocessors, where it waits in turn.
__device__ inline void WaitForEarlierKernels() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;\n" ::: "memory");
  asm volatile("griddepcontrol.launch_dependents;\n" ::: "memory");
#endif
}

// A hint that brings a line to L2. It reads nothing into the kernel, so that it may come before the
// wait.
__device__ inline void PrefetchToL2(const void* address) {
#if __CUDA_ARCH__ >= 900
  asm volatile("prefetch.global.L2 [%0];\n" ::"l"(address));
#endif
}

// Prefetches a thread's share of a row of `size` elements: its lines first, first + step, ... of
// 128 bytes.
template <typename T>
__device__ void PrefetchRow(const T* row, int size, int first, int step) {
  constexpr int kLine = 128 / static_cast<int>(sizeof(T));
#pragma unroll 1  // runs once in most calls
  for (int i = first * kLine; i < size; i += step * kLine) PrefetchToL2(row + i);
}

inline constexpr int kOverlapArchitecture = 90;

// Launches `kernel`, with blocks of `threads` threads and shared_bytes of dynamic shared memory. A
// fault, which `what` names, is the device's.
template <typename... Params, typename... Args>
void LaunchOverlapped(Device& device, const char* what, void (*kernel)(Params...), dim3 grid,
                      int threads, int64_t shared_bytes, const Args&... args) {
  cudaLaunchAttribute overlap = {};
  overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  overlap.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = grid;
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.dynamicSmemBytes = static_cast<size_t>(shared_bytes);
  config.stream = device.stream();
  config.attrs = &overlap;
  config.numAttrs = device.code_architecture() >= kOverlapArchitecture ? 1 : 0;
  device.Check(cudaLaunchKernelEx(&config, kernel, args...), what);
}

template <typename... Params, typename... Args>
void LaunchOverlapped(Device& device, const char* what, void (*kernel)(Params...), int64_t blocks,
                      int threads, int64_t shared_bytes, const Args&... args) {
  LaunchOverlapped(device, what, kernel, dim3(static_cast<unsigned>(blocks)), threads, shared_bytes,
                   args...);
}

}  // namespace beamline::cuda
