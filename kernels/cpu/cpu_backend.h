// The CPU's implementation of the operators.
#pragma once

#include <memory>
#include <vector>

#include "kernels/backend.h"

namespace beamline {

struct CpuBackendOptions {
  int num_threads = 0;  // 0: all cores that this process may use (affinity and cgroup quota)
  // The backend has its own threads. For backends that work on one model at the same time: backends
  // that share the process's threads run one after the other.
  bool own_threads = false;
  // If not empty: the backend has its own threads, which run only on these cores.
  std::vector<int> cores = {};
};

// All backends of the process without their own threads share one pool; each may be used on a
// different thread. Operators are done when they return. Computes in float32, and in bfloat16 if
// the CPU multiplies it natively. Activations are float32 in both cases. In float32 a row's result
// is bitwise the same alone and in any batch.
std::unique_ptr<Backend> MakeCpuBackend(const CpuBackendOptions& options);

}  // namespace beamline
