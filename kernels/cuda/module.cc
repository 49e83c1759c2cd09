// The functions that libbeamline_cuda.so exports (kernels/cuda_module.h).
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "kernels/cuda/communication/nccl_communicator.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda_module.h"

static_assert(sizeof(beamline::cuda::NcclName) == beamline::kRanksNameBytes);

namespace {

int Report(const absl::Status& status, char* error, size_t error_size) {
  if (error_size > 0) {
    const size_t size = std::min(status.message().size(), error_size - 1);
    std::memcpy(error, status.message().data(), size);
    error[size] = '\0';
  }
  return static_cast<int>(status.code());
}

absl::Status CheckVersion(int version) {
  if (version == beamline::kCudaModuleVersion) return absl::OkStatus();
  return absl::FailedPreconditionError(
      fmt::format("the CUDA backend is of another build: its interface has version {}, the server "
                  "asks for {}",
                  beamline::kCudaModuleVersion, version));
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int beamline_cuda_create(
    int version, int device, const beamline::GpuMemoryLimit* memory, beamline::Backend** backend,
    char* error, size_t error_size) {
  if (const absl::Status status = CheckVersion(version); !status.ok()) {
    return Report(status, error, error_size);
  }
  auto made = beamline::cuda::CudaBackend::Create(device, *memory);
  if (made.ok()) *backend = std::move(made)->release();
  return Report(made.status(), error, error_size);
}

extern "C" __attribute__((visibility("default"))) int beamline_cuda_count(int version, int* count,
                                                                          char* error,
                                                                          size_t error_size) {
  absl::Status status = CheckVersion(version);
  if (status.ok()) {
    if (const cudaError_t failure = cudaGetDeviceCount(count); failure != cudaSuccess) {
      status = absl::UnavailableError(
          fmt::format("the CUDA driver reports no usable GPU: {}", cudaGetErrorString(failure)));
    }
  }
  return Report(status, error, error_size);
}

extern "C" __attribute__((visibility("default"))) int beamline_cuda_connect(
    int version, beamline::RankTraffic traffic, beamline::Backend* const* backends, int count,
    beamline::Communicator** communicators, char* error, size_t error_size) {
  if (const absl::Status status = CheckVersion(version); !status.ok()) {
    return Report(status, error, error_size);
  }
  std::vector<beamline::cuda::Device*> devices;
  for (int i = 0; i < count; ++i) {
    devices.push_back(&static_cast<beamline::cuda::CudaBackend*>(backends[i])->device());
  }
  auto made = beamline::cuda::MakeNcclCommunicators(devices, traffic);
  for (int i = 0; made.ok() && i < count; ++i) communicators[i] = (*made)[i].release();
  return Report(made.status(), error, error_size);
}

extern "C" __attribute__((visibility("default"))) int beamline_cuda_name_ranks(int version,
                                                                               char* name,
                                                                               char* error,
                                                                               size_t error_size) {
  absl::Status status = CheckVersion(version);
  if (status.ok()) {
    const auto made = beamline::cuda::NameNcclRanks();
    status = made.status();
    if (made.ok()) std::memcpy(name, made->bytes, sizeof(made->bytes));
  }
  return Report(status, error, error_size);
}

extern "C" __attribute__((visibility("default"))) int beamline_cuda_join(
    int version, beamline::Backend* backend, const beamline::CudaRank* rank,
    beamline::Communicator** communicator, char* error, size_t error_size) {
  if (const absl::Status status = CheckVersion(version); !status.ok()) {
    return Report(status, error, error_size);
  }
  beamline::cuda::NcclPlace place = {.rank = rank->rank, .size = rank->size};
  std::memcpy(place.name.bytes, rank->name, sizeof(place.name.bytes));
  beamline::cuda::Device& device = static_cast<beamline::cuda::CudaBackend*>(backend)->device();
  auto made = beamline::cuda::JoinNcclRanks(device, place, rank->traffic);
  if (made.ok()) *communicator = std::move(made)->release();
  return Report(made.status(), error, error_size);
}
