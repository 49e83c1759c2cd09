// Where a model runs.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/backend.h"

namespace beamline {

struct ChosenBackend {
  std::unique_ptr<Backend> backend;
  std::string reason;  // a sentence for the log
  bool is_gpu = false;
};

// What a device must be able to compute.
struct ModelNeeds {
  Precision precision = DType::kFloat32;
  int head_dim = 0;                                // of the largest heads
  int hidden_size = 0;                             // of the longest rows that are normed
  bool batch_invariant = false;                    // ComputeDevice::MakeBatchInvariant
  std::optional<Precision> on_gpu = std::nullopt;  // instead of `precision`, of a GPU
};

// What the CPU's backend gets of the CPU: so many threads, 0: all; with `cores` threads of its own,
// on these cores.
struct CpuShare {
  int num_threads = 0;
  std::vector<int> cores = {};
};

// `device`: "cpu"; "cuda" or "cuda:1"; "auto", the first GPU when it computes what the
// model needs and the CPU otherwise. UNAVAILABLE or FAILED_PRECONDITION when a GPU was asked for
// and cannot be used; InvalidArgument for another name; UNIMPLEMENTED when the device does not
// compute what the model needs; RESOURCE_EXHAUSTED, with "auto" too, when there is a GPU without
// the memory that `memory` asks for. `memory` counts for the first backend of a GPU, which takes it
// for all of them.
absl::StatusOr<ChosenBackend> MakeBackend(std::string_view device, const ModelNeeds& needs,
                                          const CpuShare& cpu, const GpuMemoryLimit& memory = {});

}  // namespace beamline
