// Programmatic dependent launch: a kernel starts while the previous kernel of the stream still
// runs. So a step's launches and the loads of its first weights overlap with earlier work. Kernels
// compiled for less than sm_90 run one after the other.
//
// A kernel launched by LaunchOverlapped calls WaitForEarlierKernels before it writes anything or
// returns. It starts when the previous kernel has called that or has ended. At that time everything
// before the previous kernel is done. So until its own call it may read what the previous launch
// does not write: weights, and data that exists since the start of the step. It reads data of
// earlier kernels by LoadEarly, because L1 may hold stale data.
#pragma once

#include <cuda_runtime_api.h>

#include <utility>

#include "kernels/cuda/device/device.h"
#include "kernels/cuda/device/scalar.cuh"

namespace beamline::cuda {

// Returns when all earlier work of the stream is done and visible. From then on the next kernel may
// be scheduled on the multiprocessors, where it waits in turn.
__device__ inline void WaitForEarlierKernels() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;\n" ::: "memory");
  asm volatile("griddepcontrol.launch_dependents;\n" ::: "memory");
#endif
}

// Called before WaitForEarlierKernels. The next kernel may then be scheduled before that call
// returns. For a short kernel, if the next one reads much before its own WaitForEarlierKernels.
__device__ inline void LetNextKernelCome() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;\n" ::: "memory");
#endif
}

// Loads 16 bytes, bypassing L1. The compiler does not move these loads.
__device__ inline uint4 LoadEarly(const void* from) {
  uint4 value;
  asm volatile("ld.global.cg.v4.b32 {%0, %1, %2, %3}, [%4];\n"
               : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
               : "l"(from));
  return value;
}
__device__ inline int32_t LoadEarly(const int32_t* from) {
  int32_t value;
  asm volatile("ld.global.cg.b32 %0, [%1];\n" : "=r"(value) : "l"(from));
  return value;
}
// The same into `value`, which is unchanged unless `valid`.
__device__ inline void LoadEarlyIf(bool valid, const void* from, uint4& value) {
  asm volatile(
      "{\n.reg .pred valid;\nsetp.ne.b32 valid, %5, 0;\n"
      "@valid ld.global.cg.v4.b32 {%0, %1, %2, %3}, [%4];\n}\n"
      : "+r"(value.x), "+r"(value.y), "+r"(value.z), "+r"(value.w)
      : "l"(from), "r"(static_cast<int>(valid)));
}

// The same for a weight, which a step reads once: bypassing L1, and first to be evicted from L2.
// Otherwise a step's weights would evict what the next step reads again, including the instructions
// of kernels that run once a step.
__device__ inline uint64_t LeavesFirst() {
  uint64_t policy;
  asm("createpolicy.fractional.L2::evict_first.b64 %0;\n" : "=l"(policy));
  return policy;
}
__device__ inline void LoadWeightIf(bool valid, const void* from, uint4& value) {
  asm volatile(
      "{\n.reg .pred valid;\nsetp.ne.b32 valid, %5, 0;\n"
      "@valid ld.global.L1::no_allocate.L2::cache_hint.v4.b32 {%0, %1, %2, %3}, [%4], %6;\n}\n"
      : "+r"(value.x), "+r"(value.y), "+r"(value.z), "+r"(value.w)
      : "l"(from), "r"(static_cast<int>(valid)), "l"(LeavesFirst()));
}

// The same, but the compiler may move it.
__device__ inline uint4 LoadWeight(const void* from) {
  uint4 value;
  asm("ld.global.nc.L1::no_allocate.L2::cache_hint.v4.b32 {%0, %1, %2, %3}, [%4], %5;\n"
      : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
      : "l"(from), "l"(LeavesFirst()));
  return value;
}

// Prefetches a line to L2. It loads nothing into the kernel, so it may come before
// WaitForEarlierKernels.
__device__ inline void PrefetchToL2(const void* address) {
#if __CUDA_ARCH__ >= 900
  asm volatile("prefetch.global.L2 [%0];\n" ::"l"(address));
#endif
}

// Prefetches a thread's share of a row of `size` elements: the 128-byte lines first, first + step,
// ...
template <typename T>
__device__ void PrefetchRow(const T* row, int size, int first, int step) {
  constexpr int kLine = 128 / static_cast<int>(sizeof(T));
#pragma unroll 1  // runs once in most calls
  for (int i = first * kLine; i < size; i += step * kLine) PrefetchToL2(row + i);
}

inline constexpr int kOverlapArchitecture = 90;

// Launches `kernel` with blocks of `threads` threads and shared_bytes of dynamic shared memory. A
// fault becomes the device's; `what` names the launch in it.
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
