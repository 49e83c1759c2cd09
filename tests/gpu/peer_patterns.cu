#include "tests/gpu/peer_patterns.h"

#include "kernels/cuda/device/scalar.cuh"

namespace beamline {
namespace {

constexpr int kBlocks = 64, kThreads = 256;

__device__ int Pattern(uint64_t call, int rank, int64_t i) {
  uint64_t bits = (call * 31 + static_cast<uint64_t>(rank)) * 0x9e3779b97f4a7c15u;
  bits = (bits ^ static_cast<uint64_t>(i)) * 0xbf58476d1ce4e5b9u;
  return static_cast<int>((bits >> 33) % 17) - 8;
}

// Grid: any; a grid-stride loop.
template <typename T>
__global__ void FillKernel(T* x, int64_t count, int rank, const uint64_t* call) {
  for (int64_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
    x[i] = cuda::FromFloat<T>(static_cast<float>(Pattern(*call, rank, i)));
  }
}

template <typename T>
__global__ void CheckKernel(const T* x, int64_t count, int num_ranks, const uint64_t* call,
                            unsigned long long* num_wrong) {
  for (int64_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
    int sum = 0;
    for (int rank = 0; rank < num_ranks; ++rank) sum += Pattern(*call, rank, i);
    // A NaN is wrong too.
    if (!(cuda::ToFloat(x[i]) == static_cast<float>(sum))) atomicAdd(num_wrong, 1);
  }
}

__global__ void CountKernel(uint64_t* call) { ++*call; }

__global__ void SpinKernel(int64_t nanoseconds) {
  const auto now = [] {
    int64_t value;
    asm volatile("mov.u64 %0, %%globaltimer;\n" : "=l"(value));
    return value;
  };
  const int64_t begin = now();
  while (now() - begin < nanoseconds) {
  }
}

}  // namespace

void FillPattern(cuda::Device& device, const Tensor& x, int rank, const uint64_t* call) {
  cuda::DispatchFloat(x.dtype, [&]<typename T>() {
    FillKernel<T>
        <<<kBlocks, kThreads, 0, device.stream()>>>(x.as<T>(), x.num_elements(), rank, call);
  });
  device.CheckLaunch("FillPattern");
}

void CheckPattern(cuda::Device& device, const Tensor& x, int num_ranks, const uint64_t* call,
                  uint64_t* num_wrong) {
  cuda::DispatchFloat(x.dtype, [&]<typename T>() {
    CheckKernel<T><<<kBlocks, kThreads, 0, device.stream()>>>(
        x.as<T>(), x.num_elements(), num_ranks, call,
        reinterpret_cast<unsigned long long*>(num_wrong));
  });
  device.CheckLaunch("CheckPattern");
}

void CountCall(cuda::Device& device, uint64_t* call) {
  CountKernel<<<1, 1, 0, device.stream()>>>(call);
  device.CheckLaunch("CountCall");
}

void Spin(cuda::Device& device, int microseconds) {
  SpinKernel<<<1, 1, 0, device.stream()>>>(int64_t{1000} * microseconds);
  device.CheckLaunch("Spin");
}

}  // namespace beamline
