// Checks and tokenizes one document of a Rerank request for a generative (LLM) reranker.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/api/request.h"
#include "engine/loading/loaded_model.h"
#include "engine/scheduling/group.h"

namespace beamline {

struct JudgeRequest {
  std::string model;
  std::shared_ptr<const std::string> query;
  std::string document;
  size_t index = 0;  // index in the request's documents
  EncodeTruncation truncate = EncodeTruncation::kNone;
  int32_t priority = 0;
  std::string client;
  std::string cache_salt;
  std::optional<Clock::time_point> deadline;
  std::shared_ptr<TokenCharge> charge;
};

// Has the interface of GenerateIntake. The result has two scores: those of the model's positive and
// negative token after the filled template.
class JudgeIntake {
 public:
  using Request = JudgeRequest;
  using Sink = ScoreSink;
  using Result = ScoreResult;
  using Job = Group;

  // Checks the whole request before tokenizing. REQUIRES: it has a query, and the model has a
  // RerankPrompt.
  static absl::Status CheckAll(const ClassifyRequest& request, const ModelFacts& model);

  static absl::StatusOr<JudgeIntake> Check(JudgeRequest request, const ModelFacts& model) {
    return JudgeIntake(std::move(request), model);
  }
  size_t text_bytes() const;
  std::unique_ptr<Group> Start(Acceptance acceptance, std::shared_ptr<ScoreSink> sink) const;
  absl::Status Complete(Group& group);

 private:
  JudgeIntake(JudgeRequest request, const ModelFacts& model)
      : request_(std::move(request)), model_(&model) {}

  JudgeRequest request_;
  const ModelFacts* model_;
};

}  // namespace beamline
