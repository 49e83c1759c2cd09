// Workloads in YAML; docs/loadtest.md describes the keys.
#pragma once

#include <filesystem>
#include <string>

#include "absl/status/statusor.h"
#include "loadtest/workload/workload.h"

namespace beamline::loadtest {

// Files that the workload names are relative to `folder`. InvalidArgument names the request, the
// key and what was expected; unknown keys are errors.
absl::StatusOr<Workload> ParseWorkload(const std::string& yaml,
                                       const std::filesystem::path& folder);
absl::StatusOr<Workload> ReadWorkload(const std::string& path);

}  // namespace beamline::loadtest
