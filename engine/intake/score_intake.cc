#include "engine/intake/score_intake.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "engine/decoding/option_checks.h"
#include "engine/decoding/score_decoder.h"
#include "engine/intake/answer_size.h"
#include "engine/intake/new_job.h"
#include "engine/intake/prompts.h"
#include "engine/scheduling/planner.h"
#include "fmt/format.h"

namespace beamline {
namespace {

class ScoreResultSink final : public GenerateSink {
 public:
  ScoreResultSink(std::shared_ptr<ScoreSink> sink, bool per_token)
      : sink_(std::move(sink)), per_token_(per_token) {}

  void OnFinish(absl::StatusOr<GenerateResult> generated) override {
    if (!generated.ok()) return sink_->OnFinish(generated.status());
    ScoreResult result;
    result.usage = generated->usage;
    result.timing = generated->timing;
    result.scores.reserve(generated->sequences.size());
    for (const GeneratedSequence& sequence : generated->sequences) {
      result.scores.push_back(ToScore(sequence));
    }
    sink_->OnFinish(std::move(result));
  }

 private:
  ContinuationScore ToScore(const GeneratedSequence& sequence) const {
    ContinuationScore score;
    score.logprob = sequence.cumulative_logprob;
    score.num_tokens = static_cast<int32_t>(sequence.ids.size());
    if (!per_token_) return score;
    score.tokens.reserve(sequence.logprobs.size());
    for (const PositionLogprobs& position : sequence.logprobs) {
      score.tokens.push_back(position.chosen);
    }
    return score;
  }

  const std::shared_ptr<ScoreSink> sink_;
  const bool per_token_;
};

// Returns the decoder's prompt; sets the encoder's input of a translator.
absl::StatusOr<TokenIds> TokenizeScorePrompt(const ScoreRequest& request, const ModelFacts& model,
                                             Group& group) {
  BEAMLINE_ASSIGN_OR_RETURN(TokenIds prompt,
                            TokenizeInput(request.prompt, request.source_language, model));
  group.prompt_tokens = static_cast<int32_t>(prompt.size());
  if (model.info.task != ModelTask::kTranslate) return prompt;
  group.encoder_ids = std::move(prompt);
  return TokenIds{model.description.generation.decoder_start_token_id};
}

absl::StatusOr<std::vector<TokenIds>> TokenizeContinuations(const ScoreRequest& request,
                                                            const ModelFacts& model,
                                                            int32_t prompt_tokens) {
  EncodeTextOptions options;
  options.add_special_tokens = model.info.task == ModelTask::kTranslate;
  options.as_target = model.info.task == ModelTask::kTranslate;
  options.language = request.target_language;
  const int32_t room = model.info.max_total_tokens - prompt_tokens;
  const std::string hint = fmt::format(" behind {} of the model's {} positions", prompt_tokens,
                                       model.info.max_total_tokens);
  std::vector<TokenIds> continuations;
  for (size_t i = 0; i < request.continuations.size(); ++i) {
    const std::string field = fmt::format("continuations[{}]", i);
    BEAMLINE_ASSIGN_OR_RETURN(
        TokenIds ids, TokenizePrompt(field, request.continuations[i], options, room, hint, model));
    if (ids.empty()) return NoTokens(field);
    continuations.push_back(std::move(ids));
  }
  return continuations;
}

// Limits with which rows always fit the cache if the group runs alone and nothing is shared.
ScoreLimits LimitsFor(const Group& group, const std::vector<TokenIds>& continuations,
                      int32_t prompt_tokens, const ModelFacts& model) {
  size_t longest = 0;
  for (const TokenIds& ids : continuations) longest = std::max(longest, ids.size());
  const auto memory_tokens = static_cast<int32_t>(group.encoder_ids.size());
  const int32_t total_tokens = prompt_tokens + static_cast<int32_t>(longest);
  ScoreLimits limits;
  limits.prompt_tokens = prompt_tokens;
  limits.original_positions = model.description.spec.decoder->rotary.original_positions;
  limits.max_step_tokens = MaxStepShare(model);
  limits.tokens_per_row = StepTokensPerRow(model);
  limits.max_rows = std::min({limits.max_rows, limits.max_step_tokens, model.limits.max_sequences});
  while (limits.max_rows > 1 &&
         WorstCaseBlocks(memory_tokens, limits.max_rows, total_tokens, model.limits.block_size) >
             model.limits.num_blocks) {
    --limits.max_rows;
  }
  return limits;
}

}  // namespace

absl::StatusOr<ScoreIntake> ScoreIntake::Check(ScoreRequest request, const ModelFacts& model) {
  BEAMLINE_RETURN_IF_ERROR(CheckGenerates(model, "Score"));
  BEAMLINE_RETURN_IF_ERROR(CheckBytes(LimitOf("request_id"), request.request_id));
  BEAMLINE_RETURN_IF_ERROR(CheckBytes(LimitOf("cache_salt"), request.cache_salt));
  BEAMLINE_RETURN_IF_ERROR(CheckPrompt("prompt", request.prompt, PromptSide::kInput,
                                       /*may_be_empty=*/false, model));
  BEAMLINE_RETURN_IF_ERROR(CheckLanguage("source_language", request.source_language, model));
  BEAMLINE_RETURN_IF_ERROR(CheckLanguage("target_language", request.target_language, model));
  const size_t count = request.continuations.size();
  BEAMLINE_RETURN_IF_ERROR(CheckEntries(LimitOf("continuations"), count));
  for (size_t i = 0; i < count; ++i) {
    BEAMLINE_RETURN_IF_ERROR(CheckPrompt(fmt::format("continuations[{}]", i),
                                         request.continuations[i], PromptSide::kTarget,
                                         /*may_be_empty=*/false, model));
  }
  BEAMLINE_RETURN_IF_ERROR(CheckValue(LimitOf("priority"), request.priority));
  return ScoreIntake(std::move(request), model);
}

size_t ScoreIntake::text_bytes() const {
  return TextBytes(request_.prompt) + TextBytes(request_.continuations);
}

std::unique_ptr<Group> ScoreIntake::Start(Acceptance acceptance,
                                          std::shared_ptr<ScoreSink> sink) const {
  auto group =
      NewJob<Group>(request_, std::move(acceptance),
                    std::make_shared<ScoreResultSink>(std::move(sink), request_.per_token));
  group->cache_salt = request_.cache_salt;
  return group;
}

absl::Status ScoreIntake::Complete(Group& group) {
  BEAMLINE_ASSIGN_OR_RETURN(TokenIds prompt, TokenizeScorePrompt(request_, *model_, group));
  const auto prompt_tokens = static_cast<int32_t>(prompt.size());
  BEAMLINE_ASSIGN_OR_RETURN(std::vector<TokenIds> continuations,
                            TokenizeContinuations(request_, *model_, prompt_tokens));
  if (request_.per_token) {
    BEAMLINE_RETURN_IF_ERROR(
        CheckAnswerSize(LeastAnswerBytes(continuations), request_.max_answer_bytes));
  }
  const ScoreLimits limits = LimitsFor(group, continuations, prompt_tokens, *model_);
  group.cost = group.prompt_tokens;
  for (const TokenIds& ids : continuations) group.cost += static_cast<int64_t>(ids.size());
  group.input_tokens = group.cost;
  auto decoder = std::make_unique<ScoreDecoder>(prompt.back(), std::move(continuations), limits);
  Sequence& row = group.rows.emplace_back();
  row.tokens = std::move(prompt);
  const TokenIds& proposals = decoder->first_proposals();
  row.tokens.insert(row.tokens.end(), proposals.begin(), proposals.end());
  row.num_logits = 1 + static_cast<int32_t>(proposals.size());
  group.decoder = std::move(decoder);
  return absl::OkStatus();
}

}  // namespace beamline
