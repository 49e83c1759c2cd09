// Stands for libbeamline_cuda.so and for libcuda.so.1 (device_fault_test.cc): a CPU that says it is
// a GPU. The first backend made breaks when BEAMLINE_TEST_BREAK_AFTER results have been read.
#include <cstdlib>
#include <memory>
#include <type_traits>

#include "kernels/cuda_module.h"
#include "tests/engine/late_backend.h"

#define EXPORTED extern "C" __attribute__((visibility("default")))

EXPORTED int beamline_cuda_create(int, int, const beamline::GpuMemoryLimit*,
                                  beamline::Backend** backend, char*, size_t) {
  static bool first = true;
  auto made = std::make_unique<beamline::LateBackend>(1);
  const char* reads = std::getenv("BEAMLINE_TEST_BREAK_AFTER");
  if (first && reads != nullptr) made->BreakAfter(std::atoi(reads));
  first = false;
  *backend = made.release();
  return 0;
}

EXPORTED int beamline_cuda_count(int, int* count, char*, size_t) {
  *count = 1;
  return 0;
}

static_assert(std::is_same_v<decltype(beamline_cuda_create), beamline::CudaCreateFunction>);
static_assert(std::is_same_v<decltype(beamline_cuda_count), beamline::CudaCountFunction>);
