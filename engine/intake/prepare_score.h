// Score requests: from what a client asked to what a replica runs, and back.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "engine/api/request.h"
#include "engine/loading/loaded_model.h"
#include "engine/scheduling/group.h"

namespace beamline {

// As CheckGenerate and PrepareGroup (prepare.h): before and after tokenizing.
absl::Status CheckScore(const ScoreRequest& request, const LoadedModel& model);
absl::StatusOr<std::unique_ptr<Group>> PrepareScoreGroup(const ScoreRequest& request,
                                                         const LoadedModel& model);

// The replica answers a score group as it answers any other: this turns its sequences into scores.
std::shared_ptr<GenerateSink> MakeScoreResultSink(std::shared_ptr<ScoreSink> sink, bool per_token);

}  // namespace beamline
