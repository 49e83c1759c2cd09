#include "kernels/cuda_loader.h"

#include <dlfcn.h>
#include <elf.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/status.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "kernels/cuda_module.h"

namespace beamline {
namespace {

constexpr char kModuleVariable[] = "BEAMLINE_CUDA_MODULE";
constexpr char kDriver[] = "libcuda.so.1";
constexpr size_t kErrorSize = 1024;
// Relative to the executable's folder: installed trees, then server and tests in the build tree.
constexpr std::array kFolders = {".", "../lib", "../lib/beamline", "../kernels/cuda",
                                 "../../kernels/cuda"};

struct Module {
  CudaCreateFunction* create = nullptr;
  CudaCountFunction* count = nullptr;
  CudaConnectFunction* connect = nullptr;
  CudaNameRanksFunction* name_ranks = nullptr;
  CudaJoinFunction* join = nullptr;
};

absl::StatusOr<std::filesystem::path> FindModule() {
  if (const char* named = std::getenv(kModuleVariable); named != nullptr && *named != '\0') {
    std::error_code error;
    if (std::filesystem::exists(named, error)) return named;
    return absl::UnavailableError(
        fmt::format("{} names \"{}\", which does not exist", kModuleVariable, named));
  }
  std::error_code error;
  const auto executable = std::filesystem::read_symlink("/proc/self/exe", error);
  std::vector<std::string> tried;
  for (const char* folder : kFolders) {
    const auto path = (executable.parent_path() / folder / kCudaModuleFile).lexically_normal();
    if (std::filesystem::exists(path, error)) return path;
    tried.push_back(path.string());
  }
  return absl::UnavailableError(fmt::format("the CUDA backend {} is not installed; looked for {}",
                                            kCudaModuleFile, fmt::join(tried, ", ")));
}

// dlopen maps a truncated file too, and reading past its end is a SIGBUS. The section headers are
// the last bytes of a library. dlopen itself refuses a file that is no library.
absl::Status CheckWhole(const std::filesystem::path& path) {
  Elf64_Ehdr header = {};
  std::ifstream file(path, std::ios::binary);
  if (!file.read(reinterpret_cast<char*>(&header), sizeof(header)) ||
      std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) {
    return absl::OkStatus();
  }
  const uintmax_t whole = header.e_shoff + uintmax_t{header.e_shentsize} * header.e_shnum;
  std::error_code error;
  const uintmax_t size = std::filesystem::file_size(path, error);
  if (error || size >= whole) return absl::OkStatus();
  return absl::UnavailableError(
      fmt::format("the CUDA backend {} is cut short: {} of {} bytes", path.string(), size, whole));
}

absl::StatusOr<Module> OpenModule() {
  // By default the driver maps a process's streams to 8 hardware queues. A kernel that waits for
  // another GPU blocks all work after it in its queue. With many models on the same GPUs this could
  // be the work that the other GPU waits for. 32 is the maximum; the driver reads the variable
  // once.
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", /*replace=*/0);
  if (dlopen(kDriver, RTLD_NOW | RTLD_LOCAL) == nullptr) {
    return absl::UnavailableError(fmt::format("no NVIDIA driver: {}", dlerror()));
  }
  BEAMLINE_ASSIGN_OR_RETURN(const std::filesystem::path path, FindModule());
  BEAMLINE_RETURN_IF_ERROR(CheckWhole(path));
  // Never closed: CUDA cannot be unloaded.
  void* const handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    return absl::UnavailableError(fmt::format("the CUDA backend does not open: {}", dlerror()));
  }
  Module module;
  module.create = reinterpret_cast<CudaCreateFunction*>(dlsym(handle, kCudaCreateName));
  module.count = reinterpret_cast<CudaCountFunction*>(dlsym(handle, kCudaCountName));
  module.connect = reinterpret_cast<CudaConnectFunction*>(dlsym(handle, kCudaConnectName));
  module.name_ranks = reinterpret_cast<CudaNameRanksFunction*>(dlsym(handle, kCudaNameRanksName));
  module.join = reinterpret_cast<CudaJoinFunction*>(dlsym(handle, kCudaJoinName));
  if (module.create == nullptr || module.count == nullptr || module.connect == nullptr ||
      module.name_ranks == nullptr || module.join == nullptr) {
    return absl::FailedPreconditionError(
        fmt::format("{} is not a Beamline CUDA backend: {}", path.string(), dlerror()));
  }
  return module;
}

absl::Status ToStatus(int code, const char* message) {
  return absl::Status(static_cast<absl::StatusCode>(code), message);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Backend>> MakeCudaBackend(int device, const GpuMemoryLimit& memory) {
  BEAMLINE_ASSIGN_OR_RETURN(const Module module, OpenModule());
  Backend* backend = nullptr;
  char error[kErrorSize] = "";
  BEAMLINE_RETURN_IF_ERROR(ToStatus(
      module.create(kCudaModuleVersion, device, &memory, &backend, error, sizeof(error)), error));
  return std::unique_ptr<Backend>(backend);
}

absl::StatusOr<std::vector<std::unique_ptr<Communicator>>> MakeCudaCommunicators(
    std::span<Backend* const> backends, RankTraffic traffic) {
  BEAMLINE_ASSIGN_OR_RETURN(const Module module, OpenModule());
  std::vector<Communicator*> made(backends.size(), nullptr);
  char error[kErrorSize] = "";
  BEAMLINE_RETURN_IF_ERROR(
      ToStatus(module.connect(kCudaModuleVersion, traffic, backends.data(),
                              static_cast<int>(backends.size()), made.data(), error, sizeof(error)),
               error));
  return std::vector<std::unique_ptr<Communicator>>(made.begin(), made.end());
}

absl::StatusOr<std::string> NameCudaRanks() {
  BEAMLINE_ASSIGN_OR_RETURN(const Module module, OpenModule());
  std::string name(kRanksNameBytes, '\0');
  char error[kErrorSize] = "";
  BEAMLINE_RETURN_IF_ERROR(
      ToStatus(module.name_ranks(kCudaModuleVersion, name.data(), error, sizeof(error)), error));
  return name;
}

absl::StatusOr<std::unique_ptr<Communicator>> JoinCudaRanks(Backend& backend, RankTraffic traffic,
                                                            int rank, int size,
                                                            const std::string& name) {
  BEAMLINE_ASSIGN_OR_RETURN(const Module module, OpenModule());
  if (name.size() != kRanksNameBytes) {
    return absl::InvalidArgumentError(
        fmt::format("the name of ranks has {} bytes; accepted: {}", name.size(), kRanksNameBytes));
  }
  const CudaRank own = {.traffic = traffic, .rank = rank, .size = size, .name = name.data()};
  Communicator* made = nullptr;
  char error[kErrorSize] = "";
  BEAMLINE_RETURN_IF_ERROR(ToStatus(
      module.join(kCudaModuleVersion, &backend, &own, &made, error, sizeof(error)), error));
  return std::unique_ptr<Communicator>(made);
}

absl::StatusOr<int> CountCudaDevices() {
  BEAMLINE_ASSIGN_OR_RETURN(const Module module, OpenModule());
  int count = 0;
  char error[kErrorSize] = "";
  BEAMLINE_RETURN_IF_ERROR(
      ToStatus(module.count(kCudaModuleVersion, &count, error, sizeof(error)), error));
  return count;
}

}  // namespace beamline
