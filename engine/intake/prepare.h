// From what a client asked to what a replica runs: tokenizing, and the checks that need token
// counts.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "engine/api/request.h"
#include "engine/decoding/resolved_decoding.h"
#include "engine/loading/loaded_model.h"
#include "engine/scheduling/encode_job.h"
#include "engine/scheduling/group.h"

namespace beamline {

// What can be refused before any work is spent. INVALID_ARGUMENT names the field, the value and the
// range.
absl::StatusOr<ResolvedDecoding> CheckGenerate(const GenerateRequest& request,
                                               const LoadedModel& model);
absl::Status CheckEncode(const EncodeRequest& request, const LoadedModel& model);

// The same, of what tokenizing shows. The results lack what the caller adds: sink, ticket,
// cancellation.
absl::StatusOr<std::unique_ptr<Group>> PrepareGroup(const GenerateRequest& request,
                                                    ResolvedDecoding decoding, bool wants_deltas,
                                                    const LoadedModel& model);
absl::StatusOr<std::unique_ptr<EncodeJob>> PrepareEncodeJob(const EncodeRequest& request,
                                                            const LoadedModel& model);

}  // namespace beamline
