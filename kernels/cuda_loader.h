// Opens the CUDA backend at run time, so that one server binary runs with and without a GPU.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "kernels/backend.h"

namespace beamline {

// The backend of one GPU. UNAVAILABLE when there is no NVIDIA driver, no whole module or no such
// GPU; FAILED_PRECONDITION when the GPU is too old or the module is of another build. The message
// says which, and where the module was looked for: in the file that the environment variable
// BEAMLINE_CUDA_MODULE names; beside the executable; in ../lib and ../lib/beamline; in the build
// tree.
// The first backend of a GPU takes the memory for all of them, as `memory` says; it goes back with
// the last. RESOURCE_EXHAUSTED when the GPU does not have it.
absl::StatusOr<std::unique_ptr<Backend>> MakeCudaBackend(int device,
                                                         const GpuMemoryLimit& memory = {});

// The number of GPUs that MakeCudaBackend would accept as `device`. Errors as there.
absl::StatusOr<int> CountCudaDevices();

}  // namespace beamline
