#include "kernels/cuda/communication/nccl_library.h"

#include <dlfcn.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <utility>

#include "base/status.h"
#include "fmt/format.h"
#include "fmt/ranges.h"

namespace beamline::cuda {
namespace {

constexpr char kFileVariable[] = "BEAMLINE_NCCL_LIBRARY";
constexpr char kFile[] = "libnccl.so.2";

// NCCL reads these variables at its first use. Variables that are already set are kept.
constexpr std::array<std::pair<const char*, const char*>, 5> kSettings = {{
    {"NCCL_NVLS_ENABLE", "0"},        // no multicast
    {"NCCL_CUMEM_ENABLE", "0"},       // device buffers from cudaMalloc
    {"NCCL_CUMEM_HOST_ENABLE", "0"},  // host buffers from the system
    // Communicators connect their ranks when they are made, so no collective waits for another
    // rank's call.
    {"NCCL_RUNTIME_CONNECT", "0"},
    // One rank may capture a collective while another rank runs it without a CUDA graph.
    {"NCCL_GRAPH_REGISTER", "0"},
}};

void SetDefaults() {
  static std::once_flag once;
  std::call_once(once, [] {
    for (const auto& [name, value] : kSettings) setenv(name, value, /*overwrite=*/0);
  });
}

// The folder of the shared library that contains this code.
std::filesystem::path OwnFolder() {
  Dl_info info = {};
  if (dladdr(reinterpret_cast<const void*>(&SetDefaults), &info) == 0) return {};
  return std::filesystem::path(info.dli_fname).parent_path();
}

std::string VersionText(int version) {
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

absl::StatusOr<NcclLibrary> Resolve(void* handle, const std::string& file) {
  NcclLibrary nccl;
  const char* missing = nullptr;
  const auto find = [&](const char* name, auto& function) {
    void* const symbol = dlsym(handle, name);
    if (symbol == nullptr && missing == nullptr) missing = name;
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(symbol);
  };
  find("ncclGetVersion", nccl.get_version);
  find("ncclGetErrorString", nccl.get_error_string);
  find("ncclGetUniqueId", nccl.get_unique_id);
  find("ncclCommInitRank", nccl.comm_init_rank);
  find("ncclCommInitAll", nccl.comm_init_all);
  find("ncclCommDestroy", nccl.comm_destroy);
  find("ncclCommAbort", nccl.comm_abort);
  find("ncclCommGetAsyncError", nccl.comm_get_async_error);
  find("ncclAllReduce", nccl.all_reduce);
  find("ncclAllGather", nccl.all_gather);
  find("ncclBroadcast", nccl.broadcast);
  find("ncclSend", nccl.send);
  find("ncclRecv", nccl.receive);
  find("ncclGroupStart", nccl.group_start);
  find("ncclGroupEnd", nccl.group_end);
  if (missing != nullptr) {
    return absl::FailedPreconditionError(
        fmt::format("{} is not NCCL: it has no {}", file, missing));
  }
  int version = 0;
  if (nccl.get_version(&version) != kNcclSuccess || version < kOldestNccl) {
    return absl::FailedPreconditionError(fmt::format("{} is NCCL {}; {} or newer is needed", file,
                                                     VersionText(version),
                                                     VersionText(kOldestNccl)));
  }
  nccl.version = VersionText(version);
  return nccl;
}

}  // namespace

absl::StatusOr<NcclLibrary> OpenNccl() {
  if (const char* const named = std::getenv(kFileVariable); named != nullptr && *named != '\0') {
    SetDefaults();
    void* const handle = dlopen(named, RTLD_NOW | RTLD_LOCAL);
    if (handle != nullptr) return Resolve(handle, named);
    return absl::UnavailableError(
        fmt::format("{} names a file that does not open: {}", kFileVariable, dlerror()));
  }
  const std::array<std::string, 2> files = {kFile, (OwnFolder() / kFile).string()};
  return OpenNccl(files);
}

absl::StatusOr<NcclLibrary> OpenNccl(std::span<const std::string> files) {
  SetDefaults();
  for (const std::string& file : files) {
    // Never closed: CUDA graphs and NCCL's threads may outlive their communicators.
    if (void* const handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL); handle != nullptr) {
      return Resolve(handle, file);
    }
  }
  const char* const reason = dlerror();
  return absl::UnavailableError(
      fmt::format("NCCL is not installed: looked for {} ({}); {} may name its file",
                  fmt::join(files, ", "), reason == nullptr ? "none" : reason, kFileVariable));
}

}  // namespace beamline::cuda
