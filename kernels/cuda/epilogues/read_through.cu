#include "kernels/cuda/epilogues/read_through.h"

namespace beamline::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kBlocks = 1024;

// Grid: kBlocks blocks, striding over the memory. Bound by memory.
__global__ void ReadThroughKernel(const uint4* memory, size_t count) {
  for (size_t i = blockIdx.x * size_t{kThreads} + threadIdx.x; i < count;
       i += size_t{kThreads} * kBlocks) {
    // The values are not used, which the compiler must not see.
    asm volatile(
        "{ .reg .u32 x, y, z, w;\n ld.global.v4.u32 {x, y, z, w}, [%0]; }" ::"l"(memory + i));
  }
}

}  // namespace

void ReadThrough(Device& device, const void* memory, size_t bytes) {
  ReadThroughKernel<<<kBlocks, kThreads, 0, device.stream()>>>(static_cast<const uint4*>(memory),
                                                               bytes / sizeof(uint4));
  device.CheckLaunch("ReadThrough");
}

}  // namespace beamline::cuda
