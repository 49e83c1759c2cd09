#include "engine/intake/judge_intake.h"

#include <variant>

#include "base/field_error.h"
#include "base/status.h"
#include "base/utf8.h"
#include "engine/api/request_limits.h"
#include "engine/decoding/choice_decoder.h"
#include "engine/decoding/option_checks.h"
#include "engine/intake/new_job.h"
#include "engine/intake/prompts.h"
#include "fmt/format.h"

namespace beamline {
namespace {

class ChoiceSink final : public GenerateSink {
 public:
  explicit ChoiceSink(std::shared_ptr<ScoreSink> sink) : sink_(std::move(sink)) {}

  void OnFinish(absl::StatusOr<GenerateResult> generated) override {
    if (!generated.ok()) return sink_->OnFinish(generated.status());
    ScoreResult result;
    result.usage = generated->usage;
    result.timing = generated->timing;
    for (const PositionLogprobs& token : generated->sequences.front().logprobs) {
      result.scores.push_back({.logprob = token.chosen.logprob, .num_tokens = 1, .tokens = {}});
    }
    sink_->OnFinish(std::move(result));
  }

 private:
  const std::shared_ptr<ScoreSink> sink_;
};

absl::Status CheckUtf8(const std::string& field, const std::string& text) {
  const auto fault = FindInvalidUtf8(text);
  if (!fault.has_value()) return absl::OkStatus();
  return FieldError(field, fmt::format("not UTF-8 at byte {}", *fault), "UTF-8");
}

}  // namespace

absl::Status JudgeIntake::CheckAll(const ClassifyRequest& request, const ModelFacts& model) {
  BEAMLINE_RETURN_IF_ERROR(CheckBytes(LimitOf("request_id"), request.request_id));
  BEAMLINE_RETURN_IF_ERROR(CheckEntries(LimitOf("documents"), request.inputs.size()));
  if (request.query->empty()) return FieldError("query", "empty", "at least 1 character");
  // The query is part of every document's prompt.
  BEAMLINE_RETURN_IF_ERROR(
      CheckBytesFit("query", model.rerank->size() + request.query->size(), model));
  BEAMLINE_RETURN_IF_ERROR(CheckUtf8("query", *request.query));
  for (size_t i = 0; i < request.inputs.size(); ++i) {
    if (std::holds_alternative<std::string>(request.inputs[i])) continue;
    return FieldError(fmt::format("documents[{}]", i), "not a text",
                      fmt::format("texts, of which '{}' reads one at a time", model.info.name));
  }
  if (request.top.has_value()) {
    BEAMLINE_RETURN_IF_ERROR(CheckValue(LimitOf("top"), *request.top));
  }
  return CheckValue(LimitOf("priority"), request.priority);
}

size_t JudgeIntake::text_bytes() const {
  return model_->rerank->size() + request_.query->size() + request_.document.size();
}

std::unique_ptr<Group> JudgeIntake::Start(Acceptance acceptance,
                                          std::shared_ptr<ScoreSink> sink) const {
  auto group =
      NewJob<Group>(request_, std::move(acceptance), std::make_shared<ChoiceSink>(std::move(sink)));
  group->cache_salt = request_.cache_salt;
  return group;
}

absl::Status JudgeIntake::Complete(Group& group) {
  const RerankPrompt& prompt = *model_->rerank;
  const std::string field = fmt::format("documents[{}]", request_.index);
  BEAMLINE_RETURN_IF_ERROR(CheckUtf8(field, request_.document));
  const RerankPrompt::Filled filled = prompt.Fill(*request_.query, request_.document);
  BEAMLINE_ASSIGN_OR_RETURN(
      TokenIds ids, TokenizeAround(field, filled.text, {filled.document_begin, filled.document_end},
                                   request_.truncate, *model_));
  group.prompt_tokens = static_cast<int32_t>(ids.size());
  group.cost = group.prompt_tokens;
  group.input_tokens = group.cost;
  Sequence& row = group.rows.emplace_back();
  if (model_->info.task == ModelTask::kTranslate) {
    group.encoder_ids = std::move(ids);
    row.tokens = {model_->description.generation.decoder_start_token_id};
  } else {
    row.tokens = std::move(ids);
  }
  group.decoder = std::make_unique<ChoiceDecoder>(prompt.positive_id(), prompt.negative_id());
  return absl::OkStatus();
}

}  // namespace beamline
