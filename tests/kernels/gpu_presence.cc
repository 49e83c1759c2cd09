#include "tests/kernels/gpu_presence.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "fmt/format.h"

namespace beamline {
namespace {

constexpr char kDriver[] = "libcuda.so.1";
// Answered by the kernel's part of the driver. Packages may make the file without it.
constexpr char kDeviceFile[] = "/dev/nvidiactl";

// Of cuda.h, which a build without CUDA does not have.
constexpr int kSuccess = 0;
constexpr int kStubLibrary = 34;  // the toolkit's, to link against where there is no driver
constexpr int kNoDevice = 100;

bool KernelHasDriver() {
  const int file = open(kDeviceFile, O_RDWR | O_CLOEXEC);
  if (file < 0) return errno == EACCES || errno == EPERM;
  close(file);
  return true;
}

}  // namespace

absl::StatusOr<int> CountGpusOfDriver() {
  // Never closed: CUDA does not survive being unloaded.
  void* const driver = dlopen(kDriver, RTLD_NOW | RTLD_LOCAL);
  if (driver == nullptr) {
    const char* const error = dlerror();
    if (!KernelHasDriver()) return 0;
    return absl::InternalError(
        fmt::format("{} answers, but {} does not open: {}", kDeviceFile, kDriver, error));
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
