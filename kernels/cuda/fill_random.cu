#include "kernels/cuda/fill_random.h"
#include "kernels/cuda/scalar.cuh"

namespace beamline::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kBlocks = 1024;

// Grid: kBlocks, striding over the data. Bound by memory.
template <typename T>
__global__ void FillRandomKernel(T* data, size_t count) {
  for (size_t i = blockIdx.x * size_t{kThreads} + threadIdx.x; i < count;
       i += size_t{kThreads} * kBlocks) {
    // The finaliser of MurmurHash3: every bit of the index reaches every bit of the number.
    auto bits = static_cast<uint32_t>(i) + 0x9E3779B9u;
    bits = (bits ^ (bits >> 16)) * 0x85EBCA6Bu;
    bits = (bits ^ (bits >> 13)) * 0xC2B2AE35u;
    bits ^= bits >> 16;
    data[i] = FromFloat<T>(static_cast<float>(bits) * 0x1p-31f - 1.0f);
  }
}

}  // namespace

void FillRandom(Device& device, void* data, DType dtype, size_t count) {
  DispatchFloat(dtype, [&]<typename T>() {
    FillRandomKernel<T><<<kBlocks, kThreads, 0, device.stream()>>>(static_cast<T*>(data), count);
  });
  device.CheckLaunch("FillRandom");
}

}  // namespace beamline::cuda
