// NCCL, opened at run time. No build needs its files, and a machine without it computes each model
// on one GPU. Declares what Beamline calls, by NCCL's documented interface (nccl.h, 2.10 and
// newer), whose enums are ints here.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

struct ncclComm;     // NCCL's
struct CUstream_st;  // CUDA's; cudaStream_t points to it

namespace beamline::cuda {

using NcclComm = ncclComm*;

// Of ncclResult_t.
inline constexpr int kNcclSuccess = 0;
inline constexpr int kNcclInProgress = 7;
// Of ncclDataType_t.
inline constexpr int kNcclUint8 = 1;
inline constexpr int kNcclFloat16 = 6;
inline constexpr int kNcclFloat32 = 7;
inline constexpr int kNcclBFloat16 = 9;
// Of ncclRedOp_t.
inline constexpr int kNcclSum = 0;

// The oldest version with all of these functions, as ncclGetVersion counts: 2.10.
inline constexpr int kOldestNccl = 21000;

// ncclUniqueId.
struct NcclName {
  char bytes[128] = {};
};

struct NcclLibrary {
  int (*get_version)(int* version) = nullptr;
  const char* (*get_error_string)(int result) = nullptr;
  int (*get_unique_id)(NcclName* name) = nullptr;
  int (*comm_init_rank)(NcclComm* comm, int size, NcclName name, int rank) = nullptr;
  int (*comm_init_all)(NcclComm* comms, int num_devices, const int* devices) = nullptr;
  int (*comm_destroy)(NcclComm comm) = nullptr;
  int (*comm_abort)(NcclComm comm) = nullptr;
  int (*comm_get_async_error)(NcclComm comm, int* result) = nullptr;
  int (*all_reduce)(const void* send, void* receive, size_t count, int type, int op, NcclComm comm,
                    CUstream_st* stream) = nullptr;
  int (*all_gather)(const void* send, void* receive, size_t send_count, int type, NcclComm comm,
                    CUstream_st* stream) = nullptr;
  int (*send)(const void* send, size_t count, int type, int to, NcclComm comm,
              CUstream_st* stream) = nullptr;
  int (*receive)(void* receive, size_t count, int type, int from, NcclComm comm,
                 CUstream_st* stream) = nullptr;
  int (*group_start)() = nullptr;
  int (*group_end)() = nullptr;
  int (*broadcast)(const void* send, void* receive, size_t count, int type, int root, NcclComm comm,
                   CUstream_st* stream) = nullptr;
  std::string version;  // "2.28.3"
};

// Opens the file in the environment variable BEAMLINE_NCCL_LIBRARY. If it is not set, opens
// libnccl.so.2 where the system's loader finds it (LD_LIBRARY_PATH, its cache), else in the folder
// of this library (libbeamline_cuda.so). The file stays open. UNAVAILABLE if no file opens;
// FAILED_PRECONDITION if it is not NCCL or too old. Both errors name the files tried.
absl::StatusOr<NcclLibrary> OpenNccl();

// Opens the first of these files that dlopen can open. Errors as above.
absl::StatusOr<NcclLibrary> OpenNccl(std::span<const std::string> files);

}  // namespace beamline::cuda
