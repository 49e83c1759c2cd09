// Which device each replica of a model gets, and which part of the CPU.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/api/model.h"
#include "engine/loading/make_backend.h"

namespace beamline {

struct ReplicaPlacement {
  std::vector<std::string> devices;  // of each rank, as MakeBackend takes them
  CpuShare cpu;
};

// "cuda:0, cuda:1" -> "cuda:0", "cuda:1".
std::vector<std::string> SplitList(std::string_view list);

// Whether `replicas` and `devices` are what they may be, and agree, as far as that can be seen
// without looking at the machine. INVALID_ARGUMENT names the setting, its value and what is
// accepted.
absl::Status CheckReplicas(const ModelOptions& options);

// One placement a replica, in their order. Several on the CPU get cores of their own, and divide
// the threads, each at least one. GPUs are given out in the order of `devices`, else by their
// numbers: to each replica one for each of its ranks. `num_threads`: 0: all cores. INVALID_ARGUMENT
// as CheckReplicas, and when there are more ranks in all than GPUs for them.
absl::StatusOr<std::vector<ReplicaPlacement>> PlaceReplicas(const ModelOptions& options,
                                                            int num_threads);

// Of a model whose ranks are processes: the one device of this process's, which `device` names, and
// all threads. UNIMPLEMENTED naming a setting that such a model has not.
absl::StatusOr<ReplicaPlacement> PlaceProcess(const ModelOptions& options, int num_threads);

// The options of one replica there: LoadedModel::Load gives it these devices and no others.
ModelOptions OptionsThere(const ModelOptions& options, const ReplicaPlacement& placement);

}  // namespace beamline
