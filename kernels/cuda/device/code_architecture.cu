#include "kernels/cuda/device/code_architecture.h"

namespace beamline::cuda {
namespace {

// Never launched: compiled like every other kernel, so that its attributes tell what those were
// compiled for.
__global__ void ProbeKernel() {}

}  // namespace

cudaError_t FindCodeArchitecture(int* architecture) {
  cudaFuncAttributes attributes;
  const cudaError_t error = cudaFuncGetAttributes(&attributes, ProbeKernel);
  if (error == cudaSuccess) {
    // The intermediate code's, also where the driver compiled it for a newer GPU.
    *architecture = attributes.ptxVersion;
  } else {
    cudaGetLastError();
  }
  return error;
}

}  // namespace beamline::cuda
