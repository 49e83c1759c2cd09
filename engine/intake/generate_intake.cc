#include "engine/intake/generate_intake.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "base/field_error.h"
#include "base/math.h"
#include "base/status.h"
#include "base/text.h"
#include "engine/decoding/echo_decoder.h"
#include "engine/decoding/option_checks.h"
#include "engine/decoding/prompt_logprobs_decoder.h"
#include "engine/intake/answer_size.h"
#include "engine/intake/new_job.h"
#include "engine/intake/prompts.h"
#include "engine/scheduling/planner.h"
#include "fmt/format.h"

namespace beamline {
namespace {

// The decoder's first ids: the prompt, or the decoder start token and the target prefix.
absl::StatusOr<TokenIds> DecoderPrompt(const GenerateRequest& request, const ModelFacts& model) {
  if (model.info.task == ModelTask::kGenerate) {
    return TokenizeInput(request.prompt, "", model);
  }
  TokenIds ids = {model.description.generation.decoder_start_token_id};
  if (!request.target_prefix.has_value()) return ids;
  // Without a prefix, the language's token is generated instead (ResolveDecoding).
  if (const auto id = model.tokenizer->LanguageId(request.target_language)) ids.push_back(*id);
  BEAMLINE_ASSIGN_OR_RETURN(
      const TokenIds prefix,
      TokenizePrompt(
          "target_prefix", *request.target_prefix, {.add_special_tokens = false, .as_target = true},
          model.info.max_total_tokens - 1 - static_cast<int32_t>(ids.size()), "", model));
  ids.insert(ids.end(), prefix.begin(), prefix.end());
  return ids;
}

// The most tokens that each of `rows` sequences can have in the model's cache.
int64_t TokensWithRoom(int64_t memory_tokens, int64_t rows, const ModelFacts& model) {
  const int64_t block_size = model.limits.block_size;
  const int64_t memory_blocks = CeilDiv(memory_tokens, block_size);
  return ((model.limits.num_blocks - memory_blocks) / rows - 1) * block_size;
}

// The field that sets the number of sequences; only a request's own options can request too many.
std::string FieldOfRows(const GenerateRequest& request) {
  return std::holds_alternative<BeamOptions>(request.decoding) ? "decoding.beam.width"
                                                               : "decoding.sampling.num_sequences";
}

// Error for an option that only models of one kind accept.
absl::Status ForTaskOnly(std::string_view field, std::string_view value, std::string_view kind,
                         const ModelFacts& model) {
  return FieldError({.field = std::string(field),
                     .value = std::string(value),
                     .text = fmt::format("{} is {}; accepted for {} models only, which '{}' is not",
                                         field, value, kind, model.options.name)});
}

absl::Status CheckPromptLogprobs(const OutputOptions& output, const ModelFacts& model) {
  if (!output.prompt_logprobs.has_value()) return absl::OkStatus();
  if (model.info.task != ModelTask::kGenerate) {
    return ForTaskOnly("output.prompt_logprobs", "set", "decoder-only", model);
  }
  return CheckValue(LimitOf("output.prompt_logprobs"), *output.prompt_logprobs);
}

// Wraps the group's decoder in one that requests the log-probabilities of the prompt.
void AddPromptLogprobs(int32_t num_top, const ModelFacts& model, Group& group) {
  Sequence& row = group.rows[0];
  auto decoder = std::make_unique<PromptLogprobsDecoder>(
      std::move(group.decoder), std::move(row.tokens), num_top, model.info.vocab_size,
      MaxStepShare(model), StepTokensPerRow(model));
  row.tokens = decoder->first_piece();
  row.num_logits = static_cast<int32_t>(row.tokens.size());
  group.decoder = std::move(decoder);
}

}  // namespace

absl::StatusOr<GenerateIntake> GenerateIntake::Check(GenerateRequest request,
                                                     const ModelFacts& model) {
  BEAMLINE_RETURN_IF_ERROR(CheckGenerates(model, "Generate"));
  BEAMLINE_RETURN_IF_ERROR(CheckBytes(LimitOf("request_id"), request.request_id));
  BEAMLINE_RETURN_IF_ERROR(CheckBytes(LimitOf("cache_salt"), request.cache_salt));
  BEAMLINE_RETURN_IF_ERROR(CheckPrompt("prompt", request.prompt, PromptSide::kInput,
                                       /*may_be_empty=*/false, model));
  if (request.target_prefix.has_value()) {
    if (model.info.task != ModelTask::kTranslate) {
      return ForTaskOnly("target_prefix", "set", "encoder-decoder", model);
    }
    BEAMLINE_RETURN_IF_ERROR(CheckPrompt("target_prefix", *request.target_prefix,
                                         PromptSide::kTarget, /*may_be_empty=*/true, model));
  }
  BEAMLINE_RETURN_IF_ERROR(CheckLanguage("source_language", request.source_language, model));
  BEAMLINE_RETURN_IF_ERROR(CheckLanguage("target_language", request.target_language, model));
  if (request.output.echo && model.info.task != ModelTask::kGenerate) {
    return ForTaskOnly("output.echo", "true", "decoder-only", model);
  }
  BEAMLINE_RETURN_IF_ERROR(CheckPromptLogprobs(request.output, model));
  BEAMLINE_RETURN_IF_ERROR(CheckValue(LimitOf("priority"), request.priority));
  BEAMLINE_ASSIGN_OR_RETURN(ResolvedDecoding decoding,
                            ResolveDecoding(request, model.description.generation, *model.tokenizer,
                                            {model.info.vocab_size, model.info.max_total_tokens,
                                             model.limited_by_setting()}));
  const int32_t rows = std::max(decoding.num_sequences, decoding.beam_width);
  if (rows > model.limits.max_sequences) {
    return FieldError(
        {.field = FieldOfRows(request),
         .value = fmt::to_string(rows),
         .accepted = fmt::format("at most {} on this server", model.limits.max_sequences),
         .text = fmt::format("decoding asks for {} sequences at once", rows)});
  }
  return GenerateIntake(std::move(request), std::move(decoding), model);
}

size_t GenerateIntake::text_bytes() const {
  return TextBytes(request_.prompt) +
         (request_.target_prefix.has_value() ? TextBytes(*request_.target_prefix) : 0);
}

int64_t GenerateIntake::steps_to_use(const GenerateSink& sink) const {
  return sink.wants_deltas() ? 1 : request_.limits.max_new_tokens.value_or(0);
}

std::unique_ptr<Group> GenerateIntake::Start(Acceptance acceptance,
                                             std::shared_ptr<GenerateSink> sink) const {
  auto group = NewJob<Group>(request_, std::move(acceptance), std::move(sink));
  group->cache_salt = request_.cache_salt;
  return group;
}

absl::StatusOr<TokenIds> GenerateIntake::Tokenize(Group& group) const {
  BEAMLINE_ASSIGN_OR_RETURN(TokenIds prompt, DecoderPrompt(request_, *model_));
  group.prompt_tokens = static_cast<int32_t>(prompt.size());
  if (model_->info.task == ModelTask::kTranslate) {
    BEAMLINE_ASSIGN_OR_RETURN(group.encoder_ids,
                              TokenizeInput(request_.prompt, request_.source_language, *model_));
    group.prompt_tokens = static_cast<int32_t>(group.encoder_ids.size());
  }
  return prompt;
}

absl::Status GenerateIntake::Complete(Group& group) {
  const bool wants_deltas = group.sink->wants_deltas();
  BEAMLINE_ASSIGN_OR_RETURN(TokenIds prompt, Tokenize(group));
  BEAMLINE_RETURN_IF_ERROR(FitLength(
      request_, model_->description.generation,
      {model_->info.vocab_size, model_->info.max_total_tokens, model_->limited_by_setting()},
      static_cast<int32_t>(prompt.size()), decoding_));
  EchoDecoder::Prompt echo;
  if (request_.output.echo) {
    echo.ids = prompt;
    BEAMLINE_ASSIGN_OR_RETURN(
        echo.text, model_->tokenizer->Decode(prompt, request_.output.skip_special_tokens));
  }
  BEAMLINE_RETURN_IF_ERROR(
      CheckAnswerSize(LeastAnswerBytes(decoding_, group.prompt_tokens,
                                       static_cast<int64_t>(echo.text.size()), wants_deltas),
                      request_.max_answer_bytes));
  group.seed = decoding_.seed;
  group.rows.resize(1);
  group.rows[0].tokens = prompt;
  group.decoder = GroupDecoder::Create(decoding_, std::move(prompt), *model_->tokenizer,
                                       wants_deltas, model_->speculation.get());
  group.cost = group.prompt_tokens + int64_t{group.decoder->max_rows()} * decoding_.max_new_tokens;
  group.input_tokens = group.prompt_tokens;
  group.steps = decoding_.max_new_tokens;
  group.may_be_cut = wants_deltas;
  BEAMLINE_RETURN_IF_ERROR(CheckCacheFits(group));
  if (request_.output.prompt_logprobs.has_value()) {
    AddPromptLogprobs(*request_.output.prompt_logprobs, *model_, group);
  }
  if (request_.output.echo) {
    group.decoder =
        std::make_unique<EchoDecoder>(std::move(group.decoder), std::move(echo),
                                      /*num_streams=*/wants_deltas ? decoding_.num_sequences : 0);
  }
  return absl::OkStatus();
}

// Only requests with more sequences than the model's default decoding can fail here
// (make_limits.h).
absl::Status GenerateIntake::CheckCacheFits(const Group& group) const {
  const ModelFacts& model = *model_;
  const auto prompt_tokens = static_cast<int64_t>(group.rows[0].tokens.size());
  const int32_t rows = group.decoder->max_rows();
  const auto memory_tokens = static_cast<int64_t>(group.encoder_ids.size());
  const int64_t room = TokensWithRoom(memory_tokens, rows, model) - prompt_tokens;
  if (decoding_.max_new_tokens <= room) return absl::OkStatus();
  constexpr char kOperators[] = "the operator sets the cache's size, cache_bytes";
  if (room < 1) {
    return FieldError(
        {.field = FieldOfRows(request_),
         .value = fmt::to_string(rows),
         .accepted =
             fmt::format("fewer, as the model's cache has room for {} tokens in all ({})",
                         int64_t{model.limits.num_blocks} * model.limits.block_size, kOperators),
         .text = fmt::format("decoding asks for {} sequences at once of a prompt of {} tokens",
                             rows, group.prompt_tokens)});
  }
  const std::string value = request_.limits.max_new_tokens.has_value()
                                ? fmt::to_string(decoding_.max_new_tokens)
                                : fmt::format("not set, which means {}", decoding_.max_new_tokens);
  return FieldError("limits.max_new_tokens", value,
                    fmt::format("1 to {} for {} sequences of this prompt in the model's cache ({})",
                                room, rows, kOperators));
}

}  // namespace beamline
