// JSON files of a checkpoint folder.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/statusor.h"
#include "engine/checkpoint/checkpoint_file.h"

namespace beamline {

// Parses a file with ParseJson (base/json.h); NOT_FOUND if there is no such file.
absl::StatusOr<nlohmann::json> ReadJson(const CheckpointPath& path,
                                        int64_t max_bytes = kMaxConfigFileBytes);
absl::StatusOr<nlohmann::json> ReadJsonObject(const CheckpointPath& path,
                                              int64_t max_bytes = kMaxConfigFileBytes);

}  // namespace beamline
