// Marks the few functions that CUDA kernels and the host share, so that both use the same code.
#pragma once

#ifdef __CUDACC__
#define BEAMLINE_HOST_DEVICE __host__ __device__
#else
#define BEAMLINE_HOST_DEVICE
#endif
