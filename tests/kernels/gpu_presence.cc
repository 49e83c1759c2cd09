#include "tests/kernels/gpu_presence.h"

#include <dlfcn.h>

#include <filesystem>

#include "fmt/format.h"

namespace beamline {
namespace {

constexpr char kDriver[] = "libcuda.so.1";
// Made by the kernel's part of the driver.
constexpr char kDeviceFile[] = "/dev/nvidiactl";

// Of cuda.h, which a build without CUDA does not have.
constexpr int kSuccess = 0;
constexpr int kStubLibrary = 34;  // the toolkit's, to link against where there is no driver
constexpr int kNoDevice = 100;

}  // namespace

absl::StatusOr<int> CountGpusOfDriver() {
  // Never closed: CUDA does not survive being unloaded.
  void* const driver = dlopen(kDriver, RTLD_NOW | RTLD_LOCAL);
  if (driver == nullptr) {
    std::error_code error;
    if (!std::filesystem::exists(kDeviceFile, error)) return 0;
    return absl::InternalError(
        fmt::format("{} is there, but {} does not open: {}", kDeviceFile, kDriver, dlerror()));
  }
  const auto init = reinterpret_cast<int (*)(unsigned)>(dlsym(driver, "cuInit"));
  const auto count_devices = reinterpret_cast<int (*)(int*)>(dlsym(driver, "cuDeviceGetCount"));
  if (init == nullptr || count_devices == nullptr) {
    return absl::InternalError(fmt::format("{} is no CUDA driver: {}", kDriver, dlerror()));
  }
  int count = 0;
  int result = init(0);
  if (result == kSuccess) result = count_devices(&count);
  if (result == kNoDevice || result == kStubLibrary) return 0;
  if (result != kSuccess) {
    return absl::InternalError(
        fmt::format("{} does not count its GPUs: CUDA error {}", kDriver, result));
  }
  return count;
}

}  // namespace beamline
