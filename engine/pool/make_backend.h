// Where a model runs.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "kernels/backend.h"

namespace beamline {

struct ChosenBackend {
  std::unique_ptr<Backend> backend;
  std::string reason;  // a sentence for the log
};

// `device`: "cpu"; "cuda" or "cuda:1"; "auto", the first GPU when it computes in `dtype` and the
// CPU otherwise. UNAVAILABLE or FAILED_PRECONDITION when a GPU was asked for and cannot be used;
// InvalidArgument for another name; UNIMPLEMENTED when the device does not compute in `dtype`;
// RESOURCE_EXHAUSTED, with "auto" too, when there is a GPU without the memory that `memory` asks
// for. `memory` counts for the first backend of a GPU, which takes it for all of them.
absl::StatusOr<ChosenBackend> MakeBackend(std::string_view device, DType dtype, int num_threads,
                                          const GpuMemoryLimit& memory = {});

}  // namespace beamline
