#include "kernels/cuda/device/code_architecture.h"

namespace beamline::cuda {
namespace {

// Never launched. It is compiled like every other kernel, so its attributes tell the architecture
// of all of them.
__global__ void ProbeKernel() {}

}  // namespace

cudaError_t FindCodeArchitecture(int* architecture) {
  cudaFuncAttributes attributes;
  const cudaError_t error = cudaFuncGetAttributes(&attributes, ProbeKernel);
  if (error == cudaSuccess) {
    // The version of the PTX, also if the driver compiled it for a newer GPU.
    *architecture = attributes.ptxVersion;
  } else {
    cudaGetLastError();
  }
  return error;
}

}  // namespace beamline::cuda
