#include "engine/intake/prepare.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "base/status.h"
#include "base/text.h"
#include "engine/decoding/option_checks.h"
#include "engine/decoding/prompt_logprobs_decoder.h"
#include "engine/intake/answer_size.h"
#include "engine/intake/prompts.h"
#include "engine/scheduling/planner.h"

namespace beamline {
namespace {

// The decoder's first ids: the prompt, or the start token and the target prefix.
absl::StatusOr<TokenIds> DecoderPrompt(const GenerateRequest& request, const LoadedModel& model) {
  if (model.info.task == ModelTask::kGenerate) {
    return TokenizeInput(request.prompt, model);
  }
  TokenIds ids = {model.description.generation.decoder_start_token_id};
  if (!request.target_prefix.has_value()) return ids;
  BEAMLINE_ASSIGN_OR_RETURN(const TokenIds prefix,
                            TokenizePrompt("target_prefix", *request.target_prefix,
                                           {.add_special_tokens = false, .as_target = true},
                                           model.info.max_total_tokens - 2, "", model));
  ids.insert(ids.end(), prefix.begin(), prefix.end());
  return ids;
}

// The most tokens that each of `rows` sequences can come to have in the model's cache.
int64_t TokensWithRoom(int64_t memory_tokens, int64_t rows, const LoadedModel& model) {
  const int64_t block_size = model.info.block_size;
  const int64_t memory_blocks = (memory_tokens + block_size - 1) / block_size;
  return ((model.info.cache_blocks - memory_blocks) / rows - 1) * block_size;
}

// Only a request of more sequences than the model's own decoding has can fail here (cache_size.h).
absl::Status CheckCacheFits(const GenerateRequest& request, const Group& group,
                            const ResolvedDecoding& decoding, const LoadedModel& model) {
  const auto prompt_tokens = static_cast<int64_t>(group.rows[0].tokens.size());
  const int32_t rows = group.decoder->max_rows();
  const auto memory_tokens = static_cast<int64_t>(group.encoder_ids.size());
  const int64_t room = TokensWithRoom(memory_tokens, rows, model) - prompt_tokens;
  if (decoding.max_new_tokens <= room) return absl::OkStatus();
  constexpr char kOperators[] = "the operator sets the cache's size, cache_bytes";
  if (room < 1) {
    return absl::InvalidArgumentError(
        fmt::format("decoding asks for {} sequences at once of a prompt of {} tokens; accepted: "
                    "fewer, as the model's cache has room for {} tokens in all ({})",
                    rows, group.prompt_tokens,
                    int64_t{model.info.cache_blocks} * model.info.block_size, kOperators));
  }
  const std::string value = request.limits.max_new_tokens.has_value()
                                ? fmt::to_string(decoding.max_new_tokens)
                                : fmt::format("not set, which means {}", decoding.max_new_tokens);
  return absl::InvalidArgumentError(fmt::format(
      "limits.max_new_tokens is {}; accepted: 1 to {} for {} sequences of this prompt in the "
      "model's cache ({})",
      value, room, rows, kOperators));
}

absl::Status CheckPromptLogprobs(const OutputOptions& output, const LoadedModel& model) {
  if (!output.prompt_logprobs.has_value()) return absl::OkStatus();
  if (model.info.task != ModelTask::kGenerate) {
    return absl::InvalidArgumentError(fmt::format(
        "output.prompt_logprobs is set; accepted for decoder-only models only, which '{}' is not",
        model.options.name));
  }
  return CheckInt("output.prompt_logprobs", *output.prompt_logprobs, 0, kMaxLogprobs);
}

// Puts a decoder before the group's own that asks for the log-probabilities of the prompt.
void AddPromptLogprobs(int32_t num_top, const LoadedModel& model, Group& group) {
  Sequence& row = group.rows[0];
  auto decoder =
      std::make_unique<PromptLogprobsDecoder>(std::move(group.decoder), std::move(row.tokens),
                                              num_top, model.info.vocab_size, MaxStepShare(model));
  row.tokens = decoder->first_piece();
  row.num_logits = static_cast<int32_t>(row.tokens.size());
  group.decoder = std::move(decoder);
}

}  // namespace

absl::StatusOr<ResolvedDecoding> CheckGenerate(const GenerateRequest& request,
                                               const LoadedModel& model) {
  if (model.info.task == ModelTask::kEncode) return WrongTask(model, "Generate", "only encodes");
  BEAMLINE_RETURN_IF_ERROR(CheckPrompt("prompt", request.prompt, PromptSide::kInput,
                                       /*may_be_empty=*/false, model));
  if (request.target_prefix.has_value()) {
    if (model.info.task != ModelTask::kTranslate) {
      return absl::InvalidArgumentError(fmt::format(
          "target_prefix is set; accepted for encoder-decoder models only, which '{}' is not",
          model.options.name));
    }
    BEAMLINE_RETURN_IF_ERROR(CheckPrompt("target_prefix", *request.target_prefix,
                                         PromptSide::kTarget, /*may_be_empty=*/true, model));
  }
  if (request.output.echo && model.info.task != ModelTask::kGenerate) {
    return absl::InvalidArgumentError(
        fmt::format("output.echo is true; accepted for decoder-only models only, which '{}' is not",
                    model.options.name));
  }
  BEAMLINE_RETURN_IF_ERROR(CheckPromptLogprobs(request.output, model));
  BEAMLINE_RETURN_IF_ERROR(CheckPriority(request.priority));
  BEAMLINE_ASSIGN_OR_RETURN(ResolvedDecoding decoding,
                            ResolveDecoding(request, model.description.generation, *model.tokenizer,
                                            {model.info.vocab_size, model.info.max_total_tokens}));
  const int32_t rows = std::max(decoding.num_sequences, decoding.beam_width);
  if (rows > model.options.max_sequences) {
    return absl::InvalidArgumentError(
        fmt::format("decoding asks for {} sequences at once; accepted: at most {} on this server",
                    rows, model.options.max_sequences));
  }
  return decoding;
}

absl::StatusOr<std::unique_ptr<Group>> PrepareGroup(const GenerateRequest& request,
                                                    ResolvedDecoding decoding, bool wants_deltas,
                                                    const LoadedModel& model) {
  auto group = std::make_unique<Group>();
  BEAMLINE_ASSIGN_OR_RETURN(TokenIds prompt, DecoderPrompt(request, model));
  group->prompt_tokens = static_cast<int32_t>(prompt.size());
  if (model.info.task == ModelTask::kTranslate) {
    BEAMLINE_ASSIGN_OR_RETURN(group->encoder_ids, TokenizeInput(request.prompt, model));
    group->prompt_tokens = static_cast<int32_t>(group->encoder_ids.size());
  }
  BEAMLINE_RETURN_IF_ERROR(FitLength(request, model.description.generation,
                                     {model.info.vocab_size, model.info.max_total_tokens},
                                     static_cast<int32_t>(prompt.size()), decoding));
  if (request.output.echo) {
    group->echo_ids = prompt;
    BEAMLINE_ASSIGN_OR_RETURN(group->echo_text,
                              model.tokenizer->Decode(prompt, request.output.skip_special_tokens));
  }
  BEAMLINE_RETURN_IF_ERROR(
      CheckAnswerSize(LeastAnswerBytes(decoding, group->prompt_tokens,
                                       static_cast<int64_t>(group->echo_text.size()), wants_deltas),
                      request.max_answer_bytes));
  group->num_sequences = decoding.num_sequences;
  group->seed = decoding.seed;
  group->priority = request.priority;
  group->client = request.client;
  group->deadline = request.deadline;
  group->cache_salt = request.cache_salt;
  group->wants_deltas = wants_deltas;
  group->rows.resize(1);
  group->rows[0].tokens = prompt;
  group->decoder = GroupDecoder::Create(decoding, std::move(prompt), *model.tokenizer, wants_deltas,
                                        model.speculation.get());
  group->cost =
      group->prompt_tokens + int64_t{group->decoder->max_rows()} * decoding.max_new_tokens;
  BEAMLINE_RETURN_IF_ERROR(CheckCacheFits(request, *group, decoding, model));
  if (request.output.prompt_logprobs.has_value()) {
    AddPromptLogprobs(*request.output.prompt_logprobs, model, *group);
  }
  return group;
}

absl::Status CheckEncode(const EncodeRequest& request, const LoadedModel& model) {
  if (model.info.task != ModelTask::kEncode) {
    return WrongTask(model, "Encode", "generates text and has no embeddings");
  }
  if (request.inputs.empty() || request.inputs.size() > kMaxInputs) {
    return absl::InvalidArgumentError(
        fmt::format("inputs has {} entries; accepted: 1 to {}", request.inputs.size(), kMaxInputs));
  }
  for (size_t i = 0; i < request.inputs.size(); ++i) {
    BEAMLINE_RETURN_IF_ERROR(CheckPrompt(fmt::format("inputs[{}]", i), request.inputs[i],
                                         PromptSide::kInput, /*may_be_empty=*/true, model));
  }
  if (request.dimensions < 0 || request.dimensions > model.info.embedding_dimensions) {
    return absl::InvalidArgumentError(fmt::format("dimensions is {}; accepted: 0 to {}",
                                                  request.dimensions,
                                                  model.info.embedding_dimensions));
  }
  BEAMLINE_RETURN_IF_ERROR(CheckPriority(request.priority));
  const auto& names = model.info.prompt_names;
  if (!request.prompt_name.empty() &&
      std::find(names.begin(), names.end(), request.prompt_name) == names.end()) {
    return absl::InvalidArgumentError(
        fmt::format("prompt_name is '{}'; accepted: {}", Shorten(request.prompt_name),
                    names.empty() ? "none, this model has no prompts"
                                  : fmt::format("{}", fmt::join(names, ", "))));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<EncodeJob>> PrepareEncodeJob(const EncodeRequest& request,
                                                            const LoadedModel& model) {
  const EncodingDefaults& defaults = model.description.encoding;
  auto job = std::make_unique<EncodeJob>();
  job->pooling = request.pooling.value_or(defaults.pooling);
  job->per_token = request.per_token;
  job->normalize = request.normalize.value_or(defaults.normalize);
  job->dimensions = request.dimensions;
  job->renormalize = job->normalize;
  if (request.dimensions == 0 && !request.per_token) {
    // The model's own truncation comes behind its normalising: only a client asks for another.
    job->dimensions = defaults.dimensions;
    job->renormalize = request.normalize.value_or(false);
  }
  job->priority = request.priority;
  job->client = request.client;
  job->deadline = request.deadline;

  std::string_view prefix;
  const std::string& prompt_name =
      request.prompt_name.empty() ? defaults.default_prompt_name : request.prompt_name;
  for (const auto& [name, text] : defaults.prompts) {
    if (!prompt_name.empty() && name == prompt_name) prefix = text;
  }
  EncodeTextOptions options;
  options.max_tokens = model.info.max_input_tokens;
  options.truncation = request.truncate == EncodeTruncation::kRight  ? Truncation::kRight
                       : request.truncate == EncodeTruncation::kLeft ? Truncation::kLeft
                                                                     : Truncation::kNone;
  for (size_t i = 0; i < request.inputs.size(); ++i) {
    Prompt input = request.inputs[i];
    if (auto* text = std::get_if<std::string>(&input)) text->insert(0, prefix);
    BEAMLINE_ASSIGN_OR_RETURN(TokenIds ids, TokenizePrompt(fmt::format("inputs[{}]", i), input,
                                                           options, model.info.max_input_tokens,
                                                           "; set truncate to cut it", model));
    if (static_cast<int64_t>(ids.size()) > options.max_tokens) {  // ids, which no tokenizer cut
      const auto excess = static_cast<std::ptrdiff_t>(ids.size()) - options.max_tokens;
      request.truncate == EncodeTruncation::kLeft ? ids.erase(ids.begin(), ids.begin() + excess)
                                                  : ids.erase(ids.end() - excess, ids.end());
    }
    if (ids.empty()) {
      return absl::InvalidArgumentError(
          fmt::format("inputs[{}] has no tokens; accepted: at least 1", i));
    }
    job->inputs.push_back(std::move(ids));
  }
  BEAMLINE_RETURN_IF_ERROR(CheckAnswerSize(LeastAnswerBytes(*job, model.info.embedding_dimensions),
                                           request.max_answer_bytes));
  return job;
}

}  // namespace beamline
