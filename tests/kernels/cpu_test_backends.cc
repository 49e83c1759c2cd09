#include "kernels/cpu/cpu_backend.h"
#include "tests/kernels/op_test.h"

namespace beamline {

std::vector<BackendCase> TestBackends() {
  std::vector<BackendCase> cases;
  for (int num_threads : {1, 3}) {
    cases.push_back({"Cpu" + std::to_string(num_threads) + "Threads",
                     [num_threads] { return MakeCpuBackend({.num_threads = num_threads}); }});
  }
  return cases;
}

}  // namespace beamline
