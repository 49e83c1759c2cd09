#include "engine/intake/encode_intake.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <string>
#include <string_view>
#include <utility>

#include "base/field_error.h"
#include "base/status.h"
#include "base/text.h"
#include "engine/decoding/option_checks.h"
#include "engine/intake/answer_size.h"
#include "engine/intake/encode_cost.h"
#include "engine/intake/new_job.h"
#include "engine/intake/prompts.h"
#include "fmt/format.h"
#include "fmt/ranges.h"

namespace beamline {
namespace {

// "inputs[I]", made for every input and mostly for nothing.
class InputField {
 public:
  explicit InputField(size_t i) {
    char* const end = std::to_chars(text_.begin() + kPrefix.size(), text_.end() - 1, i).ptr;
    std::ranges::copy(kPrefix, text_.begin());
    *end = ']';
    size_ = static_cast<size_t>(end + 1 - text_.begin());
  }
  operator std::string_view() const { return {text_.begin(), size_}; }

 private:
  static constexpr std::string_view kPrefix = "inputs[";
  std::array<char, 32> text_;
  size_t size_;
};

}  // namespace

absl::StatusOr<EncodeIntake> EncodeIntake::Check(EncodeRequest&& request, const ModelFacts& model) {
  if (model.info.task != ModelTask::kEncode) {
    return WrongTask(model, "Encode",
                     Classifies(model.info.task) ? "classifies and has no embeddings"
                                                 : "generates text and has no embeddings");
  }
  BEAMLINE_RETURN_IF_ERROR(CheckBytes(LimitOf("request_id"), request.request_id));
  BEAMLINE_RETURN_IF_ERROR(CheckEntries(LimitOf("inputs"), request.inputs.size()));
  for (size_t i = 0; i < request.inputs.size(); ++i) {
    BEAMLINE_RETURN_IF_ERROR(CheckPrompt(InputField(i), request.inputs[i], PromptSide::kInput,
                                         /*may_be_empty=*/true, model));
  }
  if (request.dimensions.has_value()) {
    // Dense modules make a text's vector, none of a token's.
    const int32_t most = request.per_token
                             ? std::min(model.info.hidden_size, model.info.embedding_dimensions)
                             : model.info.embedding_dimensions;
    BEAMLINE_RETURN_IF_ERROR(CheckInt("dimensions", *request.dimensions, 1, most));
  }
  BEAMLINE_RETURN_IF_ERROR(CheckValue(LimitOf("priority"), request.priority));
  const auto& names = model.info.prompt_names;
  if (!request.prompt_name.empty() &&
      std::find(names.begin(), names.end(), request.prompt_name) == names.end()) {
    return FieldError("prompt_name", fmt::format("'{}'", Shorten(request.prompt_name)),
                      names.empty() ? "none, this model has no prompts"
                                    : fmt::format("{}", fmt::join(names, ", ")));
  }
  return EncodeIntake(std::move(request), model);
}

size_t EncodeIntake::text_bytes() const { return TextBytes(request_.inputs); }

std::unique_ptr<EncodeJob> EncodeIntake::Start(Acceptance acceptance,
                                               std::shared_ptr<EncodeSink> sink) const {
  auto job = NewJob<EncodeJob>(request_, std::move(acceptance), std::move(sink));
  job->encoding = MakeEncoding();
  return job;
}

std::optional<int32_t> EncodeIntake::Dimensions() const {
  if (request_.dimensions.has_value()) return request_.dimensions;
  const int32_t of_model = model_->description.encoding.dimensions;
  if (request_.per_token || of_model == 0) return std::nullopt;
  return of_model;
}

Encoding EncodeIntake::MakeEncoding() const {
  const EncodingDefaults& defaults = model_->description.encoding;
  const bool normalize = request_.normalize.value_or(defaults.normalize);
  Encoding encoding;
  VectorAnswers::Finishers finishers;
  if (request_.per_token) {
    encoding.reader = std::make_unique<TokenRows>(normalize);
  } else {
    const Pooling pooling = request_.pooling.value_or(defaults.pooling);
    const bool has_dense = !defaults.dense.empty();
    encoding.reader =
        std::make_unique<PooledRows>(RowReader::Mode{pooling, normalize && !has_dense});
    if (has_dense) {
      encoding.head = HeadKind::kDense;
      if (normalize) finishers.push_back(std::make_unique<UnitLength>());
    }
  }
  if (const auto dimensions = Dimensions(); dimensions.has_value()) {
    // The model's own truncation comes after its normalising: only a client asks for another.
    const bool again =
        request_.dimensions.has_value() ? normalize : request_.normalize.value_or(false);
    finishers.push_back(std::make_unique<FirstDimensions>(*dimensions, again));
  }
  encoding.answers = std::make_unique<VectorAnswers>(std::move(finishers));
  return encoding;
}

absl::Status EncodeIntake::StartInputs(EncodeJob& job) {
  const EncodingDefaults& defaults = model_->description.encoding;
  const std::string& prompt_name =
      request_.prompt_name.empty() ? defaults.default_prompt_name : request_.prompt_name;
  for (const auto& [name, text] : defaults.prompts) {
    if (!prompt_name.empty() && name == prompt_name) prefix_ = text;
  }
  job.inputs.resize(request_.inputs.size());
  return absl::OkStatus();
}

absl::Status EncodeIntake::TokenizeInput(size_t i, EncodeJob& job) {
  Prompt& input = request_.inputs[i];
  if (auto* text = std::get_if<std::string>(&input)) text->insert(0, prefix_);
  BEAMLINE_ASSIGN_OR_RETURN(job.inputs[i],
                            TokenizeWithin(InputField(i), std::move(input), request_.truncate,
                                           "; set truncate to cut it", *model_));
  return absl::OkStatus();
}

absl::Status EncodeIntake::FinishInputs(EncodeJob& job) {
  SetCost(job, *model_);
  const int64_t answer_bytes = LeastAnswerBytes(
      job, request_.per_token, Dimensions().value_or(model_->info.embedding_dimensions));
  BEAMLINE_RETURN_IF_ERROR(CheckAnswerSize(answer_bytes, request_.max_answer_bytes));
  if (request_.on_answer_bytes) request_.on_answer_bytes(answer_bytes);
  return absl::OkStatus();
}

}  // namespace beamline
