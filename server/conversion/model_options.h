// What LoadModel, UnloadModel and RestartReplica ask for, as the engine takes it.
#pragma once

#include <chrono>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "beamline/v1/models.pb.h"
#include "engine/api/model.h"

namespace beamline {

// All but the folder, which is as the message names it. INVALID_ARGUMENT for a number that its type
// cannot hold; what a value may be the engine says.
absl::StatusOr<ModelOptions> ToModelOptions(const v1::LoadModelRequest& message);

// An error of the engine about an option, with the name of the field of LoadModelRequest.
absl::Status InLoadModelRequest(const absl::Status& status);

// 0: not given. INVALID_ARGUMENT out of range.
absl::StatusOr<int32_t> ToVersion(const v1::UnloadModelRequest& message);
absl::StatusOr<int32_t> ToVersion(const v1::RestartReplicaRequest& message);
// `otherwise` where the message has none. INVALID_ARGUMENT out of range.
absl::StatusOr<std::chrono::milliseconds> ToGrace(const v1::UnloadModelRequest& message,
                                                  std::chrono::milliseconds otherwise);
absl::StatusOr<std::chrono::milliseconds> ToGrace(const v1::RestartReplicaRequest& message,
                                                  std::chrono::milliseconds otherwise);

}  // namespace beamline
