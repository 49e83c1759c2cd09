// Converts requests of the API to the engine's structs. Checks what the engine cannot see: which of
// several forms was given. The engine checks values and counts.
#pragma once

#include <chrono>
#include <optional>
#include <string_view>

#include "absl/status/statusor.h"
#include "beamline/v1/inference.pb.h"
#include "engine/api/request.h"

namespace beamline {

// Errors name the field (base/field_error.h). `model` is copied unchanged: the caller resolves it.
absl::StatusOr<GenerateRequest> ToEngineRequest(const v1::GenerateRequest& message);
absl::StatusOr<EncodeRequest> ToEngineRequest(const v1::EncodeRequest& message);
absl::StatusOr<ClassifyRequest> ToEngineRequest(const v1::ClassifyRequest& message);
// As a Classify request of pairs with the query.
absl::StatusOr<ClassifyRequest> ToEngineRequest(const v1::RerankRequest& message);
absl::StatusOr<ClassifyTokensRequest> ToEngineRequest(const v1::ClassifyTokensRequest& message);
absl::StatusOr<FillMaskRequest> ToEngineRequest(const v1::FillMaskRequest& message);
absl::StatusOr<ScoreRequest> ToEngineRequest(const v1::ScoreRequest& message);

// Converts a path in the engine's requests, as its errors name it, to the path in the API. They are
// equal except for "decoding": a member of the engine's request, but a oneof in the API, whose name
// is in no path.
std::string_view ContractPath(std::string_view engine_path);

// The engine's deadline for a call's deadline: a little earlier, so that the answer (or a stream's
// end with FINISH_REASON_DEADLINE) arrives in time. Absent for calls without one.
std::optional<Clock::time_point> EngineDeadline(std::optional<Clock::time_point> call_deadline,
                                                Clock::time_point now);

}  // namespace beamline
