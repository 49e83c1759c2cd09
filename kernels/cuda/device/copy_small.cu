#include "kernels/cuda/device/copy_small.h"

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

// Grid: one block, a thread for each Unit. Bound by its launch. Unlike other kernels it does not
// let the next one come before it has ended, with what it wrote in L2: what it copies, tables and
// lengths, is what others read before their turn.
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

}  // namespace

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
