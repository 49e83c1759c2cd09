// How a kernel tells the host that its bytes have arrived (host_landing.h).
#pragma once

#include "kernels/cuda/device/host_landing.h"

namespace beamline::cuda {

// Called by all threads of the one block that wrote the bytes. The number is written after the
// block's barrier and a system-wide fence. So a host thread that sees the number sees all bytes.
__device__ inline void Announce(const HostPlace& place) {
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence_system();
    *static_cast<volatile uint32_t*>(place.arrived) = place.number;
  }
}

}  // namespace beamline::cuda
