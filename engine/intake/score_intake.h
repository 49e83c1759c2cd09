// Checks and tokenizes a Score request. It becomes a group whose decoder scores instead of
// choosing. The replica treats it like any other group; the sink turns its sequences into scores.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "engine/api/request.h"
#include "engine/loading/loaded_model.h"
#include "engine/scheduling/group.h"

namespace beamline {

// Has the interface of GenerateIntake.
class ScoreIntake {
 public:
  using Request = ScoreRequest;
  using Sink = ScoreSink;
  using Result = ScoreResult;
  using Job = Group;

  static absl::StatusOr<ScoreIntake> Check(ScoreRequest request, const ModelFacts& model);

  size_t text_bytes() const;
  std::unique_ptr<Group> Start(Acceptance acceptance, std::shared_ptr<ScoreSink> sink) const;
  absl::Status Complete(Group& group);

 private:
  ScoreIntake(ScoreRequest request, const ModelFacts& model)
      : request_(std::move(request)), model_(&model) {}

  ScoreRequest request_;
  const ModelFacts* model_;
};

}  // namespace beamline
