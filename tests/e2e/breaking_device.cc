// Stands for libbeamline_cuda.so and for libcuda.so.1 (device_fault_test.cc): a CPU that says it is
// a GPU. The first backend made breaks when, once the file BEAMLINE_TEST_BREAK_FILE is there, ten
// more results have been read: loading reads some too.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>
#include <type_traits>

#include "absl/status/status.h"
#include "kernels/cuda_module.h"
#include "tests/engine/late_backend.h"

#define EXPORTED extern "C" __attribute__((visibility("default")))

namespace {

class BreakingBackend : public beamline::LateBackend {
 public:
  explicit BreakingBackend(const std::string& file) : LateBackend(1) {
    waits_ = std::jthread([this, file](const std::stop_token& stop) {
      std::error_code error;
      while (!stop.stop_requested() && !std::filesystem::exists(file, error)) {
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      }
      if (stop.stop_requested()) return;
      BreakAfter(10);
      std::filesystem::remove(file, error);  // tells that it counts
    });
  }

 private:
  std::jthread waits_;
};

}  // namespace

EXPORTED int beamline_cuda_create(int, int, const beamline::GpuMemoryLimit*,
                                  beamline::Backend** backend, char*, size_t) {
  static bool first = true;
  const char* file = std::getenv("BEAMLINE_TEST_BREAK_FILE");
  if (first && file != nullptr) {
    *backend = new BreakingBackend(file);
  } else {
    *backend = new beamline::LateBackend(1);
  }
  first = false;
  return 0;
}

EXPORTED int beamline_cuda_count(int, int* count, char*, size_t) {
  *count = 2;
  return 0;
}

EXPORTED int beamline_cuda_connect(int, beamline::RankTraffic, beamline::Backend* const*, int,
                                   beamline::Communicator**, char* error, size_t error_size) {
  std::snprintf(error, error_size, "these devices do not compute together");
  return static_cast<int>(absl::StatusCode::kUnimplemented);
}

EXPORTED int beamline_cuda_name_ranks(int, char*, char* error, size_t error_size) {
  return beamline_cuda_connect(0, {}, nullptr, 0, nullptr, error, error_size);
}

EXPORTED int beamline_cuda_join(int, beamline::Backend*, const beamline::CudaRank*,
                                beamline::Communicator**, char* error, size_t error_size) {
  return beamline_cuda_connect(0, {}, nullptr, 0, nullptr, error, error_size);
}

static_assert(std::is_same_v<decltype(beamline_cuda_create), beamline::CudaCreateFunction>);
static_assert(std::is_same_v<decltype(beamline_cuda_count), beamline::CudaCountFunction>);
static_assert(std::is_same_v<decltype(beamline_cuda_connect), beamline::CudaConnectFunction>);
static_assert(std::is_same_v<decltype(beamline_cuda_name_ranks), beamline::CudaNameRanksFunction>);
static_assert(std::is_same_v<decltype(beamline_cuda_join), beamline::CudaJoinFunction>);
