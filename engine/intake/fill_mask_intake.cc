#include "engine/intake/fill_mask_intake.h"

#include <algorithm>
#include <string>
#include <vector>

#include "base/field_error.h"
#include "base/status.h"
#include "base/text.h"
#include "engine/decoding/option_checks.h"
#include "engine/encoding/encoding.h"
#include "engine/intake/encode_cost.h"
#include "engine/intake/new_job.h"
#include "engine/intake/prompts.h"
#include "fmt/format.h"

namespace beamline {
namespace {

// The id of the token with this spelling, else of the first token of the text.
absl::StatusOr<int32_t> TargetId(const std::string& field, const std::string& target,
                                 const ModelFacts& model) {
  std::optional<int32_t> id = model.tokenizer->TokenId(target);
  if (!id.has_value()) {
    const auto tokens = model.tokenizer->Encode(target, {.add_special_tokens = false});
    if (!tokens.ok()) {
      return FieldError(
          {.field = field,
           .value = "text",
           .text = fmt::format("{}: {}", field, std::string(tokens.status().message()))});
    }
    if (!tokens->empty()) id = tokens->front().id;
  }
  if (id.has_value() && *id < model.info.vocab_size) return *id;
  return FieldError(field, fmt::format("'{}'", Shorten(target)),
                    "a text whose first token the model knows");
}

}  // namespace

absl::StatusOr<FillMaskIntake> FillMaskIntake::Check(FillMaskRequest request,
                                                     const ModelFacts& model) {
  if (model.info.mask_token.empty()) return WrongTask(model, "FillMask", "fills no masks");
  BEAMLINE_RETURN_IF_ERROR(CheckBytes(LimitOf("request_id"), request.request_id));
  BEAMLINE_RETURN_IF_ERROR(CheckEntries(LimitOf("inputs"), request.inputs.size()));
  BEAMLINE_RETURN_IF_ERROR(CheckValue(LimitOf("top_k"), request.top_k));
  BEAMLINE_RETURN_IF_ERROR(CheckTexts(LimitOf("targets"), request.targets));
  BEAMLINE_RETURN_IF_ERROR(CheckValue(LimitOf("priority"), request.priority));
  return FillMaskIntake(std::move(request), model);
}

size_t FillMaskIntake::text_bytes() const {
  size_t bytes = 0;
  for (const auto* texts : {&request_.inputs, &request_.targets}) {
    for (const std::string& text : *texts) bytes += text.size();
  }
  return bytes;
}

std::unique_ptr<EncodeJob> FillMaskIntake::Start(Acceptance acceptance,
                                                 std::shared_ptr<EncodeSink> sink) const {
  return NewJob<EncodeJob>(request_, std::move(acceptance), std::move(sink));
}

absl::Status FillMaskIntake::StartInputs(EncodeJob& job) {
  for (size_t i = 0; i < request_.targets.size(); ++i) {
    BEAMLINE_ASSIGN_OR_RETURN(
        const int32_t id, TargetId(fmt::format("targets[{}]", i), request_.targets[i], *model_));
    targets_.push_back(id);
  }
  std::ranges::sort(targets_);
  targets_.erase(std::unique(targets_.begin(), targets_.end()), targets_.end());
  job.inputs.resize(request_.inputs.size());
  job.tokens.resize(request_.inputs.size());
  positions_.resize(request_.inputs.size());
  return absl::OkStatus();
}

absl::Status FillMaskIntake::TokenizeInput(size_t i, EncodeJob& job) {
  const std::string field = fmt::format("inputs[{}]", i);
  BEAMLINE_ASSIGN_OR_RETURN(job.tokens[i],
                            TokenizeText(field, request_.inputs[i], request_.truncate, *model_));
  TokenIds& ids = job.inputs[i];
  for (const InputToken& token : job.tokens[i]) {
    if (token.id == model_->tokenizer->mask_id()) {
      positions_[i].push_back(static_cast<int32_t>(ids.size()));
    }
    ids.push_back(token.id);
  }
  if (!positions_[i].empty()) return absl::OkStatus();
  return FieldError({.field = field,
                     .value = "text",
                     .accepted = fmt::format("texts with {}", model_->info.mask_token),
                     .text = fmt::format("{} has no token to be filled in", field)});
}

absl::Status FillMaskIntake::FinishInputs(EncodeJob& job) {
  job.encoding.reader = std::make_unique<MaskedRows>(positions_);
  job.encoding.answers =
      std::make_unique<MaskAnswers>(std::move(positions_), request_.top_k, std::move(targets_));
  SetCost(job, *model_);
  return absl::OkStatus();
}

}  // namespace beamline
