#include "kernels/cuda/device/copy_small.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "base/check.h"
#include "base/math.h"
#include "kernels/cuda/device/launch.cuh"

namespace beamline::cuda {
namespace {

struct Bytes {
  alignas(16) char values[kMostCopySmallBytes];
};

// Grid: one block, one thread per Unit. Bound by its launch. Unlike other kernels it does not let
// the next kernel start early: that one starts when this one has ended and its writes are in L2. It
// copies tables and lengths, which later kernels read before their WaitForEarlierKernels.
template <typename Unit>
__global__ void CopySmallKernel(const __grid_constant__ Bytes bytes, Unit* to, int count) {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;\n" ::: "memory");
#endif
  for (int i = threadIdx.x; i < count; i += blockDim.x) {
    to[i] = reinterpret_cast<const Unit*>(bytes.values)[i];
  }
  __threadfence();
}

struct Fills {
  TokenFill fills[kMostCopySmallFills];
  int count;
};

// The same, then fills among the copied values. Bound by its launch and the load of `words`, which
// comes first.
__global__ void CopySmallAndFillKernel(const __grid_constant__ Bytes bytes, int32_t* to, int count,
                                       const __grid_constant__ Fills fills, const int32_t* words,
                                       int32_t* token_ids) {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;\n" ::: "memory");
#endif
  const int thread = static_cast<int>(threadIdx.x);
  const bool fills_one = thread < fills.count;
  int32_t word = 0;
  if (fills_one) word = words[fills.fills[thread].source];
  for (int i = thread; i < count; i += static_cast<int>(blockDim.x)) {
    to[i] = reinterpret_cast<const int32_t*>(bytes.values)[i];
  }
  __syncthreads();
  if (fills_one) token_ids[fills.fills[thread].target] = word;
  __threadfence();
}

}  // namespace

void CopySmallAndFill(Device& device, const void* host, void* to, size_t bytes,
                      const FillTokensParams& params) {
  BEAMLINE_CHECK(bytes <= kMostCopySmallBytes && bytes % sizeof(int32_t) == 0);
  BEAMLINE_CHECK(params.fills.size() <= kMostCopySmallFills);
  Bytes values;
  std::memcpy(values.values, host, bytes);
  Fills fills;
  std::ranges::copy(params.fills, fills.fills);
  fills.count = static_cast<int>(params.fills.size());
  const int count = static_cast<int>(bytes / sizeof(int32_t));
  LaunchOverlapped(device, "a small copy to the device", CopySmallAndFillKernel, 1,
                   ThreadsFor(std::max(count, fills.count), /*most=*/256), /*shared_bytes=*/0,
                   values, static_cast<int32_t*>(to), count, fills, params.words, params.token_ids);
}

void CopySmall(Device& device, const void* host, void* to, size_t bytes) {
  BEAMLINE_CHECK(bytes <= kMostCopySmallBytes);
  if (bytes == 0) return;
  Bytes values;
  std::memcpy(values.values, host, bytes);
  const auto launch = [&]<typename Unit>() {
    const int count = static_cast<int>(bytes / sizeof(Unit));
    LaunchOverlapped(device, "a small copy to the device", CopySmallKernel<Unit>, 1,
                     ThreadsFor(count, /*most=*/256), /*shared_bytes=*/0, values,
                     static_cast<Unit*>(to), count);
  };
  const bool in_words =
      bytes % sizeof(int32_t) == 0 && reinterpret_cast<uintptr_t>(to) % sizeof(int32_t) == 0;
  in_words ? launch.template operator()<int32_t>() : launch.template operator()<char>();
}

}  // namespace beamline::cuda
