// The CPU's implementation of the operators.
#pragma once

#include <memory>
#include <vector>

#include "kernels/backend.h"

namespace beamline {

struct CpuBackendOptions {
  int num_threads = 0;  // 0: all cores this process may use (affinity and control group quota)
  // Whether it has threads of its own, for backends that work at the same time on one thing: those
  // that share the process's take turns.
  bool own_threads = false;
  // Not empty: threads of its own, which run on these cores alone.
  std::vector<int> cores = {};
};

// Every backend of the process without threads of its own shares one set of threads; each may be
// used from a thread of its own. Operators are done when they return. Computes in float32, and in
// bfloat16 where the CPU multiplies it natively; activations are float32 either way. In float32 a
// row's result is bitwise the same alone and in any batch.
std::unique_ptr<Backend> MakeCpuBackend(const CpuBackendOptions& options);

}  // namespace beamline
