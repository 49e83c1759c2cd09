// A model in the terms of the Open Inference Protocol: tensors, metadata, configuration and
// statistics.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "engine/api/model.h"
#include "inference/grpc_service.pb.h"
#include "server/telemetry/metrics/metrics.h"

namespace beamline {

inline constexpr std::string_view kTextInput = "text_input";
inline constexpr std::string_view kIdInput = "input_ids";
inline constexpr std::string_view kLengthInput = "input_lengths";
inline constexpr std::string_view kJsonInput = "sampling_parameters";
inline constexpr std::string_view kTextOutput = "text_output";
inline constexpr std::string_view kEmbeddingOutput = "embedding";

// "name@2" for a name and a version in digits; the name alone for an empty version.
// INVALID_ARGUMENT naming `field` for any other version.
absl::StatusOr<std::string> VersionedName(std::string_view field, const std::string& name,
                                          const std::string& version);

bool HasOutput(const ModelInfo& model, std::string_view name);
std::string OutputNames(const ModelInfo& model);  // "text_output, output_ids, ..."

// True if it is ready and at least one replica is up.
bool CanAnswer(const ModelInfo& model);

// Without `versions`.
inference::ModelMetadataResponse ToMetadata(const ModelInfo& model);
inference::ModelConfig ToConfig(const ModelInfo& model);
inference::ModelStatistics ToStatistics(const ModelInfo& model, const ModelTotals& totals);
inference::RepositoryIndexResponse::ModelIndex ToIndex(const ModelInfo& model);

}  // namespace beamline
