// Which of this build's code a GPU runs.
#pragma once

#include <cuda_runtime_api.h>

namespace beamline::cuda {

// Sets *architecture to the architecture (80, 90, ...) for which the kernels that the current GPU
// runs were compiled. Their code may use no newer features, whatever the GPU supports. A GPU newer
// than every architecture of the build runs the newest PTX, which the driver compiles. An error if
// the GPU runs none of the build's code.
cudaError_t FindCodeArchitecture(int* architecture);

}  // namespace beamline::cuda
