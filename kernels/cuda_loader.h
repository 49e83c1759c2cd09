// Opens the CUDA backend at run time, so that one server binary runs with and without a GPU.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "kernels/communicator.h"

namespace beamline {

// Makes the backend of one GPU. UNAVAILABLE without an NVIDIA driver, a complete module or such a
// GPU. FAILED_PRECONDITION if the GPU is too old or the module is of another build. The message has
// the reason and the places where the module was searched: the file in the environment variable
// BEAMLINE_CUDA_MODULE; the executable's folder; ../lib and ../lib/beamline; the build tree.
// The first backend of a GPU takes the memory for all of them, as `memory` says. The last one
// returns it. RESOURCE_EXHAUSTED if the GPU does not have it.
absl::StatusOr<std::unique_ptr<Backend>> MakeCudaBackend(int device,
                                                         const GpuMemoryLimit& memory = {});

// Connects the GPUs of these backends as the ranks of one model, in this order, for `traffic`.
// REQUIRES: MakeCudaBackend made the backends, on different GPUs. Destroy the backends before the
// communicators. Opens NCCL: the file in the environment variable BEAMLINE_NCCL_LIBRARY; else
// libnccl.so.2 from the system's loader; else from the module's folder. UNAVAILABLE if there is
// none or it fails to connect. FAILED_PRECONDITION if it is too old, or if GPUs cannot access each
// other's memory.
absl::StatusOr<std::vector<std::unique_ptr<Communicator>>> MakeCudaCommunicators(
    std::span<Backend* const> backends, RankTraffic traffic);

// Makes a name with which ranks of different processes join, once.
absl::StatusOr<std::string> NameCudaRanks();
// Joins this backend's GPU as rank `rank` of `size` with the ranks of other processes, on this host
// or others, that use the same name. Returns when all have joined. REQUIRES: MakeCudaBackend made
// the backend. UNAVAILABLE if they do not join within kRankTimeLimit; other errors as in
// MakeCudaCommunicators. Destroy the backend before the communicator.
absl::StatusOr<std::unique_ptr<Communicator>> JoinCudaRanks(Backend& backend, RankTraffic traffic,
                                                            int rank, int size,
                                                            const std::string& name);

// The number of GPUs that MakeCudaBackend accepts as `device`. Errors as there.
absl::StatusOr<int> CountCudaDevices();

}  // namespace beamline
