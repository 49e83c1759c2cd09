// Marks the few functions that a CUDA kernel and the host share, so that both follow one rule.
#pragma once

#ifdef __CUDACC__
#define BEAMLINE_HOST_DEVICE __host__ __device__
#else
#define BEAMLINE_HOST_DEVICE
#endif
