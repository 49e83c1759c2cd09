// Which of this build's code a GPU runs.
#pragma once

#include <cuda_runtime_api.h>

namespace beamline::cuda {

// Sets *architecture to what the kernels that the current GPU runs were compiled for, as 80 or 90:
// what they may use, whatever the GPU itself can do. A GPU newer than every architecture of the
// build runs its newest intermediate code, which the driver compiles. An error when the GPU runs
// none of the build's code.
cudaError_t FindCodeArchitecture(int* architecture);

}  // namespace beamline::cuda
