// Converts an Open Inference Protocol request to one of beamline.v1.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "base/field_error.h"
#include "base/status.h"
#include "base/text.h"
#include "engine/api/request_limits.h"
#include "fmt/format.h"
#include "server/protocols/kserve/infer_method.h"
#include "server/protocols/kserve/model_tensors.h"
#include "server/protocols/kserve/options.h"
#include "server/protocols/rename_field.h"
#include "server/wire/decoding_ranges.h"

namespace beamline {
namespace {

using inference::InferParameter;
using inference::ModelInferRequest;

std::string ParameterField(std::string_view name) {
  return fmt::format("parameters[{}]", Shorten(name));
}

absl::StatusOr<Elements> ToElements(std::string_view name, const InferParameter& parameter) {
  switch (parameter.parameter_choice_case()) {
    case InferParameter::kBoolParam:
      return std::vector<bool>{parameter.bool_param()};
    case InferParameter::kInt64Param:
      return std::vector<Whole>{{static_cast<uint64_t>(parameter.int64_param()), false}};
    case InferParameter::kUint64Param:
      return std::vector<Whole>{{parameter.uint64_param(), true}};
    case InferParameter::kDoubleParam:
      return std::vector<double>{parameter.double_param()};
    case InferParameter::kStringParam:
      return std::vector<std::string>{parameter.string_param()};
    case InferParameter::PARAMETER_CHOICE_NOT_SET:
      break;
  }
  return FieldError(ParameterField(name), "not given", "a value");
}

absl::StatusOr<int64_t> ToWholeIn(std::string_view name, const InferParameter& parameter,
                                  int64_t min, int64_t max) {
  BEAMLINE_ASSIGN_OR_RETURN(const Elements elements, ToElements(name, parameter));
  const auto* whole = std::get_if<std::vector<Whole>>(&elements);
  if (whole == nullptr || !whole->front().FitsSigned()) {
    return FieldError(ParameterField(name), ShowElements(elements),
                      fmt::format("whole numbers from {} to {}", min, max));
  }
  BEAMLINE_RETURN_IF_ERROR(CheckInt(ParameterField(name), whole->front().Signed(), min, max));
  return whole->front().Signed();
}

// Common parameters. In Triton, priority 0 is the default and 1 the highest.
constexpr int64_t kLastPriority = 100;
constexpr int64_t kLongestTimeoutUs = int64_t{1} << 50;  // 35 years

struct CommonParameters {
  int32_t priority = 0;
  std::optional<std::chrono::microseconds> timeout;
};

// Reads the request's parameters: the common ones, and options.
absl::StatusOr<CommonParameters> ReadParameters(const ModelInferRequest& message, bool generates,
                                                InferOptions& options) {
  CommonParameters common;
  for (const auto& [name, parameter] : message.parameters()) {
    if (name == "priority") {
      BEAMLINE_ASSIGN_OR_RETURN(const int64_t level, ToWholeIn(name, parameter, 0, kLastPriority));
      common.priority = level == 0 ? 0 : static_cast<int32_t>(1 - level);
    } else if (name == "timeout") {
      BEAMLINE_ASSIGN_OR_RETURN(const int64_t us, ToWholeIn(name, parameter, 0, kLongestTimeoutUs));
      if (us > 0) common.timeout = std::chrono::microseconds(us);
    } else if (name == "triton_enable_empty_final_response") {
      // The last response is never empty.
    } else {
      BEAMLINE_ASSIGN_OR_RETURN(const Elements value, ToElements(name, parameter));
      BEAMLINE_RETURN_IF_ERROR(SetOption(generates, name, ParameterField(name), value, options));
    }
  }
  return common;
}

// The prompts of a request, converted to beamline.v1.
struct Prompts {
  std::vector<v1::Prompt> prompts;
  std::string_view input;  // the input that has them; empty: none
};

absl::Status CheckPromptCount(const InputTensor& input, int64_t count, bool generates) {
  const int64_t most = generates ? 1 : static_cast<int64_t>(LimitOf("inputs").size->max);
  if (count >= 1 && count <= most) return absl::OkStatus();
  return InputError(input, ".shape", fmt::format("has {} texts", count),
                    generates ? "1" : fmt::format("1 to {}", most));
}

absl::StatusOr<std::vector<v1::Prompt>> ReadTextInput(const InputTensor& input, bool generates) {
  BEAMLINE_RETURN_IF_ERROR(CheckPromptCount(input, input.num_elements(), generates));
  BEAMLINE_ASSIGN_OR_RETURN(Elements elements, input.Read());
  auto* texts = std::get_if<std::vector<std::string>>(&elements);
  if (texts == nullptr) {
    return InputError(input, ".datatype", "has datatype " + input.datatype(), "BYTES");
  }
  std::vector<v1::Prompt> prompts(texts->size());
  for (size_t i = 0; i < texts->size(); ++i) prompts[i].set_text(std::move((*texts)[i]));
  return prompts;
}

// The input is [num_tokens], or [num_texts, num_tokens] with `lengths` [num_texts]; the rest of
// each row is padding.
absl::StatusOr<std::vector<v1::Prompt>> ReadIdInput(const InputTensor& input,
                                                    const std::vector<Whole>& lengths,
                                                    bool generates) {
  const std::vector<int64_t> shape = input.shape();
  if (shape.empty() || shape.size() > 2 || shape.back() == 0) {
    return InputError(input, ".shape", "has no shape of ids", "[tokens] or [texts, tokens]");
  }
  const int64_t count = shape.size() == 2 ? shape[0] : 1;
  BEAMLINE_RETURN_IF_ERROR(CheckPromptCount(input, count, generates));
  if (!lengths.empty() && std::cmp_not_equal(lengths.size(), count)) {
    return FieldError("input_lengths", fmt::format("of {} texts", lengths.size()),
                      fmt::format("of {}, as input_ids", count));
  }
  std::vector<v1::Prompt> prompts(static_cast<size_t>(count));
  for (size_t i = 0; i < prompts.size(); ++i) {
    int64_t length = shape.back();
    const int64_t begin = static_cast<int64_t>(i) * length;
    if (!lengths.empty()) {
      const Whole& given = lengths[i];
      if (!given.FitsSigned() || given.Signed() < 1 || given.Signed() > shape.back()) {
        return FieldError(fmt::format("input_lengths[{}]", i), given.ToText(),
                          fmt::format("1 to {}", shape.back()));
      }
      length = given.Signed();
    }
    // The engine checks ids against the model's vocabulary.
    BEAMLINE_RETURN_IF_ERROR(
        input.AppendIds(begin, length, *prompts[i].mutable_ids()->mutable_ids()));
  }
  return prompts;
}

absl::StatusOr<Prompts> ReadPrompts(const std::vector<InputTensor>& inputs, bool generates) {
  const auto find = [&](std::string_view name) {
    const auto found = std::ranges::find(inputs, name, &InputTensor::name);
    return found == inputs.end() ? nullptr : &*found;
  };
  const InputTensor* text = find(kTextInput);
  const InputTensor* ids = find(kIdInput);
  const InputTensor* length = find(kLengthInput);
  if ((text == nullptr) == (ids == nullptr)) {
    return FieldError("inputs", text == nullptr ? "without a text" : "of two texts",
                      "one of text_input and input_ids");
  }
  if (length != nullptr && ids == nullptr) {
    return InputError(*length, "", "comes without input_ids", "both");
  }
  Prompts read;
  if (text != nullptr) {
    read.input = kTextInput;
    BEAMLINE_ASSIGN_OR_RETURN(read.prompts, ReadTextInput(*text, generates));
    return read;
  }
  std::vector<Whole> lengths;
  if (length != nullptr) {
    BEAMLINE_RETURN_IF_ERROR(CheckPromptCount(*length, length->num_elements(), generates));
    BEAMLINE_ASSIGN_OR_RETURN(Elements elements, length->Read());
    auto* numbers = std::get_if<std::vector<Whole>>(&elements);
    if (numbers == nullptr || numbers->empty()) {
      return InputError(*length, ".datatype", "has no whole numbers", "INT32, one for each text");
    }
    lengths = std::move(*numbers);
  }
  read.input = kIdInput;
  BEAMLINE_ASSIGN_OR_RETURN(read.prompts, ReadIdInput(*ids, lengths, generates));
  return read;
}

// No list of beamline.v1 may have more entries.
constexpr int64_t kMostOptionElements = 1024;

absl::Status ReadOptionInputs(const std::vector<InputTensor>& inputs, bool generates,
                              InferOptions& options) {
  for (const InputTensor& input : inputs) {
    if (input.name() == kTextInput || input.name() == kIdInput || input.name() == kLengthInput) {
      continue;
    }
    if (input.num_elements() > kMostOptionElements) {
      return InputError(input, ".shape", fmt::format("has {} elements", input.num_elements()),
                        fmt::format("at most {}", kMostOptionElements));
    }
    BEAMLINE_ASSIGN_OR_RETURN(const Elements elements, input.Read());
    if (!generates || input.name() != kJsonInput) {
      const std::string field = fmt::format("input '{}'", Shorten(input.name()));
      BEAMLINE_RETURN_IF_ERROR(SetOption(generates, input.name(), field, elements, options));
      continue;
    }
    const auto* texts = std::get_if<std::vector<std::string>>(&elements);
    if (texts == nullptr || texts->size() != 1) {
      return InputError(input, "", "is not one text", "a JSON object, as BYTES of 1 element");
    }
    BEAMLINE_RETURN_IF_ERROR(
        SetOptionsFromJson(generates, texts->front(), std::string(kJsonInput), options));
  }
  return absl::OkStatus();
}

void AddEndId(InferOptions& options, v1::Limits& limits) {
  if (options.end_id == -1) return limits.set_ignore_eos(true);
  options.names.push_back(
      {fmt::format("limits.stop_token_ids[{}]", limits.stop_token_ids_size()), "end_id"});
  limits.add_stop_token_ids(*options.end_id);
}

absl::StatusOr<v1::GenerateRequest> MakeGenerate(InferOptions& options) {
  // TensorRT-LLM's clients send top_p 0 with every beam search.
  if (options.beam.width() > 1 && options.sampling.top_p() == 0) options.sampling.clear_top_p();
  BEAMLINE_RETURN_IF_ERROR(InInferRequest(CheckRanges(options.sampling), options.names));
  BEAMLINE_RETURN_IF_ERROR(InInferRequest(CheckRanges(options.beam), options.names));
  if (options.end_id.has_value()) AddEndId(options, *options.generate.mutable_limits());
  v1::GenerateRequest request = std::move(options.generate);
  if (options.beam.width() > 1) {
    *request.mutable_beam() = options.beam;
  } else if (options.is_greedy) {
    request.mutable_greedy();
    if (options.sampling.num_sequences() > 1) {
      return FieldError("n", fmt::to_string(options.sampling.num_sequences()),
                        "1 with temperature 0, of which all answers would be the same");
    }
  } else if (options.has_sampling) {
    *request.mutable_sampling() = options.sampling;
  }
  return request;
}

// "1, 3"; empty if no version of the model is ready.
std::string ReadyVersions(const ModelDirectory& models, std::string_view name) {
  std::string versions;
  for (const auto& model : models.models()) {
    if (model->name != name || model->state != ModelState::kReady) continue;
    versions += fmt::format("{}{}", versions.empty() ? "" : ", ", model->version);
  }
  return versions;
}

// Makes the error for an unknown name or version NOT_FOUND, as in Triton and in this server's
// metadata.
absl::Status WithUnknownModel(const ModelDirectory& models, const ModelInferRequest& message,
                              const absl::Status& status) {
  const absl::Status renamed = InInferRequest(status);
  if (!absl::IsInvalidArgument(status) || message.model_name().empty()) return renamed;
  const std::string versions = ReadyVersions(models, message.model_name());
  if (message.model_version().empty() || versions.empty()) {
    return absl::NotFoundError(renamed.message());
  }
  const absl::Status version =
      FieldError("model_version", fmt::format("'{}'", Shorten(message.model_version())),
                 fmt::format("{}, or nothing", versions));
  return absl::NotFoundError(version.message());
}

absl::Status ReadOutputs(const ModelInferRequest& message, const ModelInfo& model,
                         InferOptions& options, InferAnswer& answer) {
  for (int i = 0; i < message.outputs_size(); ++i) {
    const auto& output = message.outputs(i);
    const std::string field = fmt::format("outputs[{}]", i);
    if (!HasOutput(model, output.name())) {
      return FieldError(field + ".name", fmt::format("'{}'", Shorten(output.name())),
                        OutputNames(model));
    }
    if (!output.parameters().empty()) {
      return FieldError(field + ".parameters",
                        fmt::format("'{}'", Shorten(output.parameters().begin()->first)),
                        "none; shared memory and classification are not there");
    }
    if (!answer.outputs.insert(output.name()).second) {
      return FieldError(field + ".name", fmt::format("'{}' again", Shorten(output.name())),
                        "each output once");
    }
  }
  answer.left_out.insert(options.left_out.begin(), options.left_out.end());
  if (answer.outputs.contains("output_log_probs") && !options.return_logprobs) {
    options.generate.mutable_output()->set_logprobs(0);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status InInferRequest(const absl::Status& status, const OptionNames& names) {
  return RenameField(status, [&](std::string_view path) -> std::string {
    if (path == "model") return "model_name";
    if (path == "request_id") return "id";
    // "prompt", "prompt.ids[2]", "inputs[7]", "inputs[7].ids[2]"
    constexpr std::string_view kIds = "ids[";
    if (path == "prompt" || path.starts_with("prompt.") || path.starts_with("inputs[")) {
      const size_t ids = path.find(kIds);
      return ids == std::string_view::npos ? std::string(kTextInput)
                                           : fmt::format("{}{}", kIdInput, path.substr(ids + 3));
    }
    const auto find = [&](std::string_view of) {
      const auto found = std::ranges::find(names, of, &OptionName::path);
      return found == names.end() ? std::string_view() : found->name;
    };
    if (const std::string_view name = find(path); !name.empty()) return std::string(name);
    // An element of a list has the list's name.
    const std::string_view list = path.substr(0, path.find('['));
    if (const std::string_view name = find(list); !name.empty()) {
      return fmt::format("{}{}", name, path.substr(list.size()));
    }
    for (const bool generates : {true, false}) {
      const std::string_view name = OptionOfField(generates, list);
      if (!name.empty()) return fmt::format("{}{}", name, path.substr(list.size()));
    }
    return std::string(path);
  });
}

absl::StatusOr<InferTranslation> TranslateInfer(const ModelInferRequest& message,
                                                const ModelInfo& model,
                                                std::optional<Clock::time_point> deadline) {
  if (Classifies(model.task)) {
    return FieldError(
        {.field = "model_name",
         .value = fmt::format("'{}'", model.name),
         .text = fmt::format("model_name is '{}', a classifier, which ModelInfer does "
                             "not serve; {}",
                             model.name,
                             model.task == ModelTask::kClassify ? "Classify and Rerank do"
                                                                : "ClassifyTokens does")});
  }
  const bool generates = Generates(model.task);
  InferOptions options;
  InferTranslation translation;
  BEAMLINE_ASSIGN_OR_RETURN(const std::vector<InputTensor> inputs, ReadInputs(message));
  BEAMLINE_ASSIGN_OR_RETURN(const CommonParameters common,
                            ReadParameters(message, generates, options));
  BEAMLINE_RETURN_IF_ERROR(ReadOptionInputs(inputs, generates, options));
  BEAMLINE_RETURN_IF_ERROR(ReadOutputs(message, model, options, translation.answer));
  BEAMLINE_ASSIGN_OR_RETURN(Prompts prompts, ReadPrompts(inputs, generates));
  translation.stream = options.stream;
  translation.deadline = deadline;
  if (common.timeout.has_value()) {
    const Clock::time_point until = Clock::now() + *common.timeout;
    translation.deadline = std::min(deadline.value_or(until), until);
  }
  const auto complete = [&](auto request) {
    request.set_model(model.versioned_name);
    request.set_request_id(message.id());
    request.set_priority(common.priority);
    translation.request = std::move(request);
  };
  if (generates) {
    BEAMLINE_ASSIGN_OR_RETURN(v1::GenerateRequest request, MakeGenerate(options));
    *request.mutable_prompt() = std::move(prompts.prompts[0]);
    complete(std::move(request));
  } else {
    v1::EncodeRequest request = std::move(options.encode);
    for (v1::Prompt& prompt : prompts.prompts) *request.add_inputs() = std::move(prompt);
    complete(std::move(request));
  }
  InferAnswer& answer = translation.answer;
  answer.model_name = model.name;
  answer.model_version = fmt::to_string(model.version);
  answer.id = message.id();
  answer.pad_id = std::max(model.eos_token_id, 0);
  answer.names = std::move(options.names);
  return translation;
}

absl::StatusOr<InferTranslation> TranslateInfer(CallState& call, const ModelInferRequest& message,
                                                const Caller& caller) {
  const auto named = VersionedName("model_version", message.model_name(), message.model_version());
  if (!named.ok()) return named.status();
  const auto model =
      call.CountRefusal(call.services().models.Resolve(*named, ModelDirectory::Use::kAny));
  if (!model.ok()) return WithUnknownModel(call.services().models, message, model.status());
  call.SetModel((*model)->name);
  return TranslateInfer(message, **model, caller.deadline);
}

}  // namespace beamline
