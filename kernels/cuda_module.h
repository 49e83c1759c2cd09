// The C interface of libbeamline_cuda.so, shared by the module and its loader.
#pragma once

#include <cstddef>
#include <cstdint>

namespace beamline {

class Backend;
class Communicator;
enum class RankTraffic : uint8_t;
struct GpuMemoryLimit;

// Raised when kernels/communicator.h, compute_device.h or operators.h changes: a module of another
// build is refused, not called.
inline constexpr int kCudaModuleVersion = 17;

// Makes the backend of one GPU, with memory as MakeCudaBackend says. Returns 0 and sets *backend,
// which the caller owns; or an absl::StatusCode and a message, cut to error_size with its final 0.
using CudaCreateFunction = int(int version, int device, const GpuMemoryLimit* memory,
                               Backend** backend, char* error, size_t error_size);
// Sets *count to the GPUs that the driver shows; returns as CudaCreateFunction.
using CudaCountFunction = int(int version, int* count, char* error, size_t error_size);

// Sets communicators[i] to the end of rank i, connected for `traffic`, whose operators are those of
// backends[i]; the caller owns them. REQUIRES: the module made the backends. Returns as
// CudaCreateFunction.
using CudaConnectFunction = int(int version, RankTraffic traffic, Backend* const* backends,
                                int count, Communicator** communicators, char* error,
                                size_t error_size);

// Sets the kRanksNameBytes at `name` to what ranks of different processes join by; returns as
// CudaCreateFunction.
using CudaNameRanksFunction = int(int version, char* name, char* error, size_t error_size);
inline constexpr size_t kRanksNameBytes = 128;
// What a process says of its rank among others.
struct CudaRank {
  RankTraffic traffic;
  int rank = 0, size = 0;
  const char* name = nullptr;  // of them all
};
// Sets *communicator to the end of one rank, whose operators are those of `backend`, once all have
// called; the caller owns it. REQUIRES: the module made the backend. Returns as CudaCreateFunction.
using CudaJoinFunction = int(int version, Backend* backend, const CudaRank* rank,
                             Communicator** communicator, char* error, size_t error_size);

inline constexpr char kCudaCreateName[] = "beamline_cuda_create";
inline constexpr char kCudaCountName[] = "beamline_cuda_count";
inline constexpr char kCudaConnectName[] = "beamline_cuda_connect";
inline constexpr char kCudaNameRanksName[] = "beamline_cuda_name_ranks";
inline constexpr char kCudaJoinName[] = "beamline_cuda_join";
inline constexpr char kCudaModuleFile[] = "libbeamline_cuda.so";

}  // namespace beamline
