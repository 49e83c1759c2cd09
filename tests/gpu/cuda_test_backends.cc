#include "kernels/cuda_loader.h"
#include "tests/gpu/host_visible_backend.h"
#include "tests/kernels/op_test.h"
#include "tests/kernels/test_gpu_memory.h"

namespace beamline {

std::vector<BackendCase> TestBackends() {
  return {{"cuda", []() -> absl::StatusOr<std::unique_ptr<Backend>> {
             auto cuda = MakeCudaBackend(0, kTestGpuMemory);
             if (!cuda.ok()) return cuda.status();
             return MakeHostVisible(*std::move(cuda));
           }}};
}

}  // namespace beamline
