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

// The backend of one GPU. UNAVAILABLE when there is no NVIDIA driver, no whole module or no such
// GPU; FAILED_PRECONDITION when the GPU is too old or the module is of another build. The message
// says which, and where the module was looked for: in the file that the environment variable
// BEAMLINE_CUDA_MODULE names; beside the executable; in ../lib and ../lib/beamline; in the build
// tree.
// The first backend of a GPU takes the memory for all of them, as `memory` says; it goes back with
// the last. RESOURCE_EXHAUSTED when the GPU does not have it.
absl::StatusOr<std::unique_ptr<Backend>> MakeCudaBackend(int device,
                                                         const GpuMemoryLimit& memory = {});

// Connects the GPUs of these backends, ranks of one model in their order, for `traffic`.
// Backends that MakeCudaBackend made, of different GPUs; they go before the communicators do. NCCL
// is opened for it: the file that the environment variable BEAMLINE_NCCL_LIBRARY names;
// libnccl.so.2 where the system's loader finds it; the same beside the module. UNAVAILABLE without
// it, or when it does not connect them; FAILED_PRECONDITION when it is too old, or GPUs cannot
// reach each other's memory.
absl::StatusOr<std::vector<std::unique_ptr<Communicator>>> MakeCudaCommunicators(
    std::span<Backend* const> backends, RankTraffic traffic);

// A name by which ranks of different processes join, for one time.
absl::StatusOr<std::string> NameCudaRanks();
// Connects the GPU of this backend, which MakeCudaBackend made, as rank `rank` of `size` with those
// of other processes, on this host or others, that join by the same name: returns when all have.
// UNAVAILABLE where they do not within kRankTimeLimit; else as MakeCudaCommunicators. The backend
// goes before the communicator does.
absl::StatusOr<std::unique_ptr<Communicator>> JoinCudaRanks(Backend& backend, RankTraffic traffic,
                                                            int rank, int size,
                                                            const std::string& name);

// The number of GPUs that MakeCudaBackend would accept as `device`. Errors as there.
absl::StatusOr<int> CountCudaDevices();

}  // namespace beamline
