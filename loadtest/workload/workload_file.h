// Reads workloads from YAML; docs/loadtest.md describes the keys.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "absl/status/statusor.h"
#include "loadtest/workload/workload.h"

namespace beamline::loadtest {

inline constexpr int kMaxBatch = 4096;            // the API's limit
inline constexpr int kMaxDistinct = 100'000;      // requests whose answers are kept in memory
inline constexpr int64_t kMaxShared = 1'000'000;  // words or tokens

// Paths in the workload are relative to `folder`. INVALID_ARGUMENT names the request, the key and
// the expected value; unknown keys are errors.
absl::StatusOr<Workload> ParseWorkload(const std::string& yaml,
                                       const std::filesystem::path& folder);
absl::StatusOr<Workload> ReadWorkload(const std::string& path);

}  // namespace beamline::loadtest
