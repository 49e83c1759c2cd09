// The C interface of libbeamline_cuda.so, shared by the module and its loader.
#pragma once

#include <cstddef>
#include <cstdint>

namespace beamline {

class Backend;
class Communicator;
enum class RankTraffic : uint8_t;
struct GpuMemoryLimit;

// Increase it when kernels/communicator.h, compute_device.h or operators.h changes. The loader
// refuses a module of another version.
inline constexpr int kCudaModuleVersion = 17;

// Makes the backend of one GPU; memory as in MakeCudaBackend. Returns 0 and sets *backend, which
// the caller owns. Otherwise returns an absl::StatusCode and a message, cut to error_size bytes
// including its final 0.
using CudaCreateFunction = int(int version, int device, const GpuMemoryLimit* memory,
                               Backend** backend, char* error, size_t error_size);
// Sets *count to the number of GPUs that the driver shows. Returns as CudaCreateFunction.
using CudaCountFunction = int(int version, int* count, char* error, size_t error_size);

// Connects the ranks for `traffic` and sets communicators[i] to rank i's communicator, which uses
// the operators of backends[i]. The caller owns them. REQUIRES: the module made the backends.
// Returns as CudaCreateFunction.
using CudaConnectFunction = int(int version, RankTraffic traffic, Backend* const* backends,
                                int count, Communicator** communicators, char* error,
                                size_t error_size);

// Writes kRanksNameBytes to `name`, with which ranks of different processes join. Returns as
// CudaCreateFunction.
using CudaNameRanksFunction = int(int version, char* name, char* error, size_t error_size);
inline constexpr size_t kRanksNameBytes = 128;
// A process's own rank among those of all processes.
struct CudaRank {
  RankTraffic traffic;
  int rank = 0, size = 0;
  const char* name = nullptr;  // shared by all ranks
};
// Sets *communicator to this rank's communicator, which uses the operators of `backend`, once all
// ranks have called. The caller owns it. REQUIRES: the module made the backend. Returns as
// CudaCreateFunction.
using CudaJoinFunction = int(int version, Backend* backend, const CudaRank* rank,
                             Communicator** communicator, char* error, size_t error_size);

inline constexpr char kCudaCreateName[] = "beamline_cuda_create";
inline constexpr char kCudaCountName[] = "beamline_cuda_count";
inline constexpr char kCudaConnectName[] = "beamline_cuda_connect";
inline constexpr char kCudaNameRanksName[] = "beamline_cuda_name_ranks";
inline constexpr char kCudaJoinName[] = "beamline_cuda_join";
inline constexpr char kCudaModuleFile[] = "libbeamline_cuda.so";

}  // namespace beamline
