#include "kernels/cuda/epilogues/fill_random.h"

#include "kernels/cuda/device/scalar.cuh"

namespace beamline::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kBlocks = 1024;

template <typename T>
struct FillRandomArgs {
  T* data;
  int64_t count, columns, stride;
  uint32_t seed;
};

__device__ inline void FromBits(uint32_t bits, uint8_t& value) {
  value = static_cast<uint8_t>(bits >> 24);
}
template <typename T>
__device__ inline void FromBits(uint32_t bits, T& value) {
  value = FromFloat<T>(static_cast<float>(bits) * 0x1p-31f - 1.0f);
}

// Grid: kBlocks blocks, striding over the data. Bound by memory.
template <typename T>
__global__ void FillRandomKernel(FillRandomArgs<T> args) {
  for (int64_t i = blockIdx.x * int64_t{kThreads} + threadIdx.x; i < args.count;
       i += int64_t{kThreads} * kBlocks) {
    // The finaliser of MurmurHash3: every bit of the index affects every bit of the number.
    uint32_t bits = static_cast<uint32_t>(i) + args.seed * 0x632BE5ABu + 0x9E3779B9u;
    bits = (bits ^ (bits >> 16)) * 0x85EBCA6Bu;
    bits = (bits ^ (bits >> 13)) * 0xC2B2AE35u;
    bits ^= bits >> 16;
    FromBits(bits, args.data[i / args.columns * args.stride + i % args.columns]);
  }
}

template <typename T>
void Launch(Device& device, const Tensor& x, uint32_t seed) {
  FillRandomKernel<T><<<kBlocks, kThreads, 0, device.stream()>>>(
      {x.as<T>(), x.num_elements(), x.dim(-1), x.row_stride, seed});
  device.CheckLaunch("FillRandom");
}

}  // namespace

void FillRandom(Device& device, const Tensor& matrix, uint32_t seed) {
  if (SizeOf(matrix.dtype) == 1) return Launch<uint8_t>(device, matrix, seed);
  DispatchFloat(matrix.dtype, [&]<typename T>() { Launch<T>(device, matrix, seed); });
}

void FillRandom(Device& device, void* data, DType dtype, size_t count) {
  FillRandom(device, Tensor(data, dtype, {static_cast<int64_t>(count)}), 0);
}

}  // namespace beamline::cuda
