#include "engine/intake/classify_intake.h"

#include <algorithm>
#include <limits>

#include "base/field_error.h"
#include "base/status.h"
#include "engine/decoding/option_checks.h"
#include "engine/encoding/encoding.h"
#include "engine/intake/answer_size.h"
#include "engine/intake/encode_cost.h"
#include "engine/intake/new_job.h"
#include "engine/intake/prompts.h"
#include "fmt/format.h"

namespace beamline {
namespace {

constexpr char kCutHint[] = "; set truncate to cut it";

absl::Status CheckReranker(const ModelFacts& model) {
  const size_t num_labels = model.info.labels.size();
  if (num_labels == 1) return absl::OkStatus();
  return WrongTask(model, "Rerank", fmt::format("has {} classes; a reranker has one", num_labels));
}

}  // namespace

absl::StatusOr<ClassifyIntake> ClassifyIntake::Check(ClassifyRequest request,
                                                     const ModelFacts& model) {
  const bool reranks = request.query.has_value();
  const char* const rpc = reranks ? "Rerank" : "Classify";
  if (model.info.task != ModelTask::kClassify) {
    const bool could_judge = reranks && Generates(model.info.task);
    return WrongTask(model, rpc,
                     could_judge
                         ? "has no classes, and is without the settings rerank_template and "
                           "rerank_tokens"
                         : "has no classes");
  }
  if (reranks) BEAMLINE_RETURN_IF_ERROR(CheckReranker(model));
  BEAMLINE_RETURN_IF_ERROR(CheckBytes(LimitOf("request_id"), request.request_id));
  BEAMLINE_RETURN_IF_ERROR(
      CheckEntries(reranks ? LimitOf("documents") : LimitOf("inputs"), request.inputs.size()));
  if (reranks && request.query->empty()) {
    return FieldError("query", "empty", "at least 1 character");
  }
  bool has_pairs = reranks;
  for (size_t i = 0; i < request.inputs.size(); ++i) {
    const ClassifyInput& input = request.inputs[i];
    has_pairs = has_pairs || std::holds_alternative<TextPair>(input);
    const auto* ids = std::get_if<TokenIds>(&input);
    if (ids == nullptr) continue;
    BEAMLINE_RETURN_IF_ERROR(CheckPrompt(fmt::format("inputs[{}]", i), *ids, PromptSide::kInput,
                                         /*may_be_empty=*/false, model));
  }
  if (has_pairs && !model.tokenizer->JoinPair({}, {}, Truncation::kNone, 0).has_value()) {
    return WrongTask(model, rpc, "has a tokenizer without a template of two texts");
  }
  if (request.top.has_value()) {
    BEAMLINE_RETURN_IF_ERROR(CheckValue(LimitOf("top"), *request.top));
  }
  BEAMLINE_RETURN_IF_ERROR(CheckValue(LimitOf("priority"), request.priority));
  return ClassifyIntake(std::move(request), model);
}

size_t ClassifyIntake::text_bytes() const {
  size_t bytes = request_.query.has_value() ? request_.query->size() : 0;
  for (size_t i = 0; i < num_inputs(); ++i) bytes += input_bytes(i);
  return bytes;
}

std::unique_ptr<EncodeJob> ClassifyIntake::Start(Acceptance acceptance,
                                                 std::shared_ptr<EncodeSink> sink) const {
  const ClassifyDefaults& defaults = model_->description.classifying;
  auto job = NewJob<EncodeJob>(request_, std::move(acceptance), std::move(sink));
  const ScoreFunction function = request_.function.value_or(
      request_.query.has_value() ? defaults.rank_function : defaults.function);
  const Pooling pooling = model_->description.spec.classifier->pooling;
  job->encoding =
      ClassEncoding(std::make_unique<PooledRows>(RowReader::Mode{.pooling = pooling}), function);
  return job;
}

bool ClassifyIntake::has_pairs() const {
  return request_.query.has_value() ||
         std::ranges::any_of(request_.inputs, [](const ClassifyInput& input) {
           return std::holds_alternative<TextPair>(input);
         });
}

size_t ClassifyIntake::input_bytes(size_t i) const {
  const ClassifyInput& input = request_.inputs[i];
  if (const auto* text = std::get_if<std::string>(&input)) return text->size();
  const auto* pair = std::get_if<TextPair>(&input);
  return pair == nullptr ? 0 : pair->first.size() + pair->second.size();
}

absl::Status ClassifyIntake::StartInputs(EncodeJob& job) {
  if (request_.query.has_value()) {
    BEAMLINE_ASSIGN_OR_RETURN(
        query_, TokenizePart("query", *request_.query, ToTruncation(request_.truncate), *model_));
  }
  job.inputs.resize(request_.inputs.size());
  if (model_->description.spec.encoder->num_types > 1 && has_pairs()) {
    job.type_ids.resize(request_.inputs.size());
  }
  return absl::OkStatus();
}

absl::Status ClassifyIntake::TokenizeInput(size_t i, EncodeJob& job) {
  const std::string field = FieldOf(i);
  const ClassifyInput& given = request_.inputs[i];
  const Truncation truncation = ToTruncation(request_.truncate);
  if (const auto* pair = std::get_if<TextPair>(&given)) {
    BEAMLINE_ASSIGN_OR_RETURN(const TokenIds first, TokenizePart(field + ".pair.first", pair->first,
                                                                 truncation, *model_));
    BEAMLINE_ASSIGN_OR_RETURN(
        const TokenIds second,
        TokenizePart(field + ".pair.second", pair->second, truncation, *model_));
    return SetPair(i, first, second, job);
  }
  const auto* text = std::get_if<std::string>(&given);
  if (text != nullptr && request_.query.has_value()) {
    BEAMLINE_ASSIGN_OR_RETURN(const TokenIds document,
                              TokenizePart(field, *text, truncation, *model_));
    return SetPair(i, query_, document, job);
  }
  Prompt prompt = text != nullptr ? Prompt(*text) : Prompt(std::get<TokenIds>(given));
  TokenIds& ids = job.inputs[i];
  BEAMLINE_ASSIGN_OR_RETURN(
      ids, TokenizeWithin(field, std::move(prompt), request_.truncate, kCutHint, *model_));
  DropPadding(ids);
  if (!job.type_ids.empty()) job.type_ids[i].assign(ids.size(), 0);
  return absl::OkStatus();
}

absl::Status ClassifyIntake::FinishInputs(EncodeJob& job) {
  SetCost(job, *model_);
  const int32_t top = request_.top.value_or(std::numeric_limits<int32_t>::max());
  const auto num_labels = static_cast<int32_t>(model_->info.labels.size());
  return CheckAnswerSize(LeastAnswerBytes(job, top, num_labels), request_.max_answer_bytes);
}

std::string ClassifyIntake::FieldOf(size_t input) const {
  return fmt::format("{}[{}]", request_.query.has_value() ? "documents" : "inputs", input);
}

absl::Status ClassifyIntake::SetPair(size_t input, const TokenIds& first, const TokenIds& second,
                                     EncodeJob& job) const {
  const std::string field = FieldOf(input);
  const int32_t limit = model_->info.max_input_tokens;
  const size_t length = first.size() + second.size() +
                        static_cast<size_t>(model_->tokenizer->num_pair_template_tokens());
  const Truncation truncation = ToTruncation(request_.truncate);
  if (truncation == Truncation::kNone && length > static_cast<size_t>(limit)) {
    return TooLong(field, fmt::to_string(length), limit, fmt::format(", of both texts{}", kCutHint),
                   *model_);
  }
  auto pair = model_->tokenizer->JoinPair(first, second, truncation, limit);
  if (!job.type_ids.empty()) job.type_ids[input] = std::move(pair->type_ids);
  if (pair->ids.empty()) return NoTokens(field);
  DropPadding(pair->ids);
  job.inputs[input] = std::move(pair->ids);
  return absl::OkStatus();
}

void ClassifyIntake::DropPadding(TokenIds& ids) const {
  const int32_t padding_id = model_->description.classifying.padding_id;
  while (ids.size() > 1 && ids.back() == padding_id) ids.pop_back();
}

}  // namespace beamline
