#include "engine/intake/classify_tokens_intake.h"

#include <string>
#include <vector>

#include "base/status.h"
#include "engine/decoding/option_checks.h"
#include "engine/encoding/encoding.h"
#include "engine/intake/encode_cost.h"
#include "engine/intake/new_job.h"
#include "engine/intake/prompts.h"
#include "fmt/format.h"

namespace beamline {

absl::StatusOr<ClassifyTokensIntake> ClassifyTokensIntake::Check(ClassifyTokensRequest request,
                                                                 const ModelFacts& model) {
  if (model.info.task != ModelTask::kClassifyTokens) {
    return WrongTask(model, "ClassifyTokens", "has no classes of tokens");
  }
  BEAMLINE_RETURN_IF_ERROR(CheckBytes(LimitOf("request_id"), request.request_id));
  BEAMLINE_RETURN_IF_ERROR(CheckEntries(LimitOf("inputs"), request.inputs.size()));
  if (request.top.has_value()) BEAMLINE_RETURN_IF_ERROR(CheckValue(LimitOf("top"), *request.top));
  BEAMLINE_RETURN_IF_ERROR(
      CheckEntries(LimitOf("ignore_labels.labels"), request.num_ignored_labels));
  BEAMLINE_RETURN_IF_ERROR(CheckValue(LimitOf("priority"), request.priority));
  return ClassifyTokensIntake(std::move(request), model);
}

size_t ClassifyTokensIntake::text_bytes() const {
  size_t bytes = 0;
  for (const std::string& text : request_.inputs) bytes += text.size();
  return bytes;
}

std::unique_ptr<EncodeJob> ClassifyTokensIntake::Start(Acceptance acceptance,
                                                       std::shared_ptr<EncodeSink> sink) const {
  auto job = NewJob<EncodeJob>(request_, std::move(acceptance), std::move(sink));
  job->encoding =
      ClassEncoding(std::make_unique<TokenRows>(/*normalize=*/false), ScoreFunction::kSoftmax);
  return job;
}

absl::Status ClassifyTokensIntake::StartInputs(EncodeJob& job) {
  job.inputs.resize(request_.inputs.size());
  job.tokens.resize(request_.inputs.size());
  return absl::OkStatus();
}

absl::Status ClassifyTokensIntake::TokenizeInput(size_t i, EncodeJob& job) {
  BEAMLINE_ASSIGN_OR_RETURN(
      job.tokens[i],
      TokenizeText(fmt::format("inputs[{}]", i), request_.inputs[i], request_.truncate, *model_));
  job.inputs[i].reserve(job.tokens[i].size());
  for (const InputToken& token : job.tokens[i]) job.inputs[i].push_back(token.id);
  return absl::OkStatus();
}

absl::Status ClassifyTokensIntake::FinishInputs(EncodeJob& job) {
  SetCost(job, *model_);
  return absl::OkStatus();
}

}  // namespace beamline
