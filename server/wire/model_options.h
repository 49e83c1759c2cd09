// Converts LoadModel, UnloadModel and RestartReplica to the engine's options.
#pragma once

#include <chrono>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "beamline/v1/models.pb.h"
#include "engine/api/model.h"

namespace beamline {

// Converts everything; the folder stays as the message names it. INVALID_ARGUMENT for a number that
// its type cannot hold. The engine checks ranges.
absl::StatusOr<ModelOptions> ToModelOptions(const v1::LoadModelRequest& message);

// Renames the field of an engine's error to that of LoadModelRequest.
absl::Status InLoadModelRequest(const absl::Status& status);

// 0: not given. INVALID_ARGUMENT if out of range.
absl::StatusOr<int32_t> ToVersion(const v1::UnloadModelRequest& message);
absl::StatusOr<int32_t> ToVersion(const v1::RestartReplicaRequest& message);
// `otherwise` if the message has none. INVALID_ARGUMENT if out of range.
absl::StatusOr<std::chrono::milliseconds> ToGrace(const v1::UnloadModelRequest& message,
                                                  std::chrono::milliseconds otherwise);
absl::StatusOr<std::chrono::milliseconds> ToGrace(const v1::RestartReplicaRequest& message,
                                                  std::chrono::milliseconds otherwise);

}  // namespace beamline
