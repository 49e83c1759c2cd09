// Kernels that start while the one before them in the stream still runs (programmatic dependent
// launch), so that a step's launches and first weights overlap with what came before. Where the
// kernels were compiled for less than sm_90 they start in turn.
//
// A kernel launched by LaunchOverlapped calls WaitForEarlierKernels before it writes anything or
// returns. It begins when the kernel before it has called that, or ended: by then everything before
// that one is done. So until it calls it too, it may read what the launch right before it does not
// write: weights, and what a step has had from its beginning. What others have written it reads by
// LoadEarly, because L1 may hold what was there before.
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

// Called before WaitForEarlierKernels: the kernel after this one need not wait for that to come to
// the multiprocessors. For a short kernel in front of one that has much to read before its turn.
__device__ inline void LetNextKernelCome() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;\n" ::: "memory");
#endif
}

// 16 bytes, past L1. The compiler leaves these loads where they are written.
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
// The same into a value that stays as it is unless `valid`.
__device__ inline void LoadEarlyIf(bool valid, const void* from, uint4& value) {
  asm volatile(
      "{\n.reg .pred valid;\nsetp.ne.b32 valid, %5, 0;\n"
      "@valid ld.global.cg.v4.b32 {%0, %1, %2, %3}, [%4];\n}\n"
      : "+r"(value.x), "+r"(value.y), "+r"(value.z), "+r"(value.w)
      : "l"(from), "r"(static_cast<int>(valid)));
}

// The same of a weight, which a step reads once: past L1, and what it leaves in L2 makes room first
// for what comes. Otherwise the weights of a step drive out what the next one reads again, the
// instructions of kernels that run once a step among it.
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

// The same where its place does not matter.
__device__ inline uint4 LoadWeight(const void* from) {
  uint4 value;
  asm("ld.global.nc.L1::no_allocate.L2::cache_hint.v4.b32 {%0, %1, %2, %3}, [%4], %5;\n"
      : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
      : "l"(from), "l"(LeavesFirst()));
  return value;
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
