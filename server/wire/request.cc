#include "server/wire/request.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "absl/utility/utility.h"
#include "base/field_error.h"
#include "base/status.h"
#include "fmt/format.h"

namespace beamline {
namespace {

template <typename T, typename Field>
std::optional<T> Optional(bool present, Field value) {
  return present ? std::optional<T>(static_cast<T>(value)) : std::nullopt;
}

TokenIds ToIds(const google::protobuf::RepeatedField<int32_t>& ids) {
  return TokenIds(ids.begin(), ids.end());
}

Chat ToChat(const v1::Chat& message) {
  Chat chat;
  chat.messages.reserve(static_cast<size_t>(message.messages_size()));
  for (const v1::ChatMessage& one : message.messages()) {
    ChatMessage& made = chat.messages.emplace_back();
    made.role = one.role();
    if (one.has_content()) made.content = one.content();
    made.members_json = one.members_json();
  }
  chat.tools_json = message.tools_json();
  chat.documents_json = message.documents_json();
  chat.template_options_json = message.template_options_json();
  if (message.has_add_generation_prompt()) {
    chat.add_generation_prompt = message.add_generation_prompt();
  }
  chat.template_name = message.template_();
  return chat;
}

// `field` is the prompt, or a list with the prompt at `index`.
absl::StatusOr<Prompt> ToPrompt(const v1::Prompt& message, std::string_view field,
                                std::optional<int> index = std::nullopt) {
  switch (message.kind_case()) {
    case v1::Prompt::kText:
      return Prompt(message.text());
    case v1::Prompt::kIds:
      return Prompt(ToIds(message.ids().ids()));
    case v1::Prompt::kChat:
      return Prompt(ToChat(message.chat()));
    case v1::Prompt::KIND_NOT_SET:
      break;
  }
  const std::string path =
      index.has_value() ? fmt::format("{}[{}]", field, *index) : std::string(field);
  return FieldError(path, "not given", "text or ids");
}

SamplingOptions ToSampling(const v1::Sampling& message) {
  SamplingOptions options;
  options.temperature = Optional<float>(message.has_temperature(), message.temperature());
  options.top_k = Optional<int32_t>(message.has_top_k(), message.top_k());
  options.top_p = Optional<float>(message.has_top_p(), message.top_p());
  options.min_p = Optional<float>(message.has_min_p(), message.min_p());
  options.typical_p = Optional<float>(message.has_typical_p(), message.typical_p());
  options.seed = Optional<uint64_t>(message.has_seed(), message.seed());
  options.num_sequences = Optional<int32_t>(message.has_num_sequences(), message.num_sequences());
  return options;
}

std::optional<EarlyStopping> ToEarlyStopping(v1::EarlyStopping value) {
  switch (value) {
    case v1::EARLY_STOPPING_EAGER:
      return EarlyStopping::kEager;
    case v1::EARLY_STOPPING_HEURISTIC:
      return EarlyStopping::kHeuristic;
    case v1::EARLY_STOPPING_EXHAUSTIVE:
      return EarlyStopping::kExhaustive;
    default:
      return std::nullopt;
  }
}

BeamOptions ToBeam(const v1::Beam& message) {
  BeamOptions options;
  if (message.has_width()) options.width = message.width();
  options.num_sequences = Optional<int32_t>(message.has_num_sequences(), message.num_sequences());
  options.length_penalty = Optional<float>(message.has_length_penalty(), message.length_penalty());
  options.early_stopping = ToEarlyStopping(message.early_stopping());
  if (message.has_num_groups()) options.num_groups = message.num_groups();
  options.diversity_penalty = message.diversity_penalty();
  return options;
}

Decoding ToDecoding(const v1::GenerateRequest& message) {
  switch (message.decoding_case()) {
    case v1::GenerateRequest::kGreedy:
      return GreedyOptions{};
    case v1::GenerateRequest::kSampling:
      return ToSampling(message.sampling());
    case v1::GenerateRequest::kBeam:
      return ToBeam(message.beam());
    case v1::GenerateRequest::DECODING_NOT_SET:
      break;
  }
  return std::monostate{};
}

LimitOptions ToLimits(const v1::Limits& message) {
  LimitOptions options;
  options.max_new_tokens =
      Optional<int32_t>(message.has_max_new_tokens(), message.max_new_tokens());
  options.min_new_tokens =
      Optional<int32_t>(message.has_min_new_tokens(), message.min_new_tokens());
  options.stop.assign(message.stop().begin(), message.stop().end());
  options.stop_token_ids = ToIds(message.stop_token_ids());
  options.ignore_eos = message.ignore_eos();
  options.include_stop = message.include_stop();
  return options;
}

absl::StatusOr<ShapingOptions> ToShaping(const v1::Shaping& message) {
  ShapingOptions options;
  options.repetition_penalty =
      Optional<float>(message.has_repetition_penalty(), message.repetition_penalty());
  options.presence_penalty = message.presence_penalty();
  options.frequency_penalty = message.frequency_penalty();
  options.no_repeat_ngram_size =
      Optional<int32_t>(message.has_no_repeat_ngram_size(), message.no_repeat_ngram_size());
  options.logit_bias.assign(message.logit_bias().begin(), message.logit_bias().end());
  std::sort(options.logit_bias.begin(), options.logit_bias.end());  // a map has no order
  for (int i = 0; i < message.bad_words_size(); ++i) {
    BEAMLINE_ASSIGN_OR_RETURN(Prompt word, ToPrompt(message.bad_words(i), "shaping.bad_words", i));
    options.bad_words.push_back(std::move(word));
  }
  options.suppress_tokens = ToIds(message.suppress_tokens());
  options.forced_eos = Optional<int32_t>(message.has_forced_eos(), message.forced_eos());
  return options;
}

OutputOptions ToOutput(const v1::Output& message) {
  OutputOptions options;
  options.prompt_logprobs =
      Optional<int32_t>(message.has_prompt_logprobs(), message.prompt_logprobs());
  options.return_logprobs = message.has_logprobs();
  options.logprobs = message.logprobs();
  if (message.has_return_token_ids()) options.return_token_ids = message.return_token_ids();
  if (message.has_skip_special_tokens()) {
    options.skip_special_tokens = message.skip_special_tokens();
  }
  options.echo = message.echo();
  return options;
}

void SetPooling(v1::Pooling pooling, EncodeRequest& request) {
  switch (pooling) {
    case v1::POOLING_MEAN:
      request.pooling = Pooling::kMean;
      break;
    case v1::POOLING_CLS:
      request.pooling = Pooling::kCls;
      break;
    case v1::POOLING_LAST:
      request.pooling = Pooling::kLast;
      break;
    case v1::POOLING_NONE:
      request.per_token = true;
      break;
    default:  // POOLING_MODEL; unknown values were refused by the parser
      break;
  }
}

EncodeTruncation ToTruncation(v1::Truncation truncation) {
  switch (truncation) {
    case v1::TRUNCATION_RIGHT:
      return EncodeTruncation::kRight;
    case v1::TRUNCATION_LEFT:
      return EncodeTruncation::kLeft;
    default:
      return EncodeTruncation::kNone;
  }
}

std::optional<ScoreFunction> ToFunction(v1::ScoreFunction function) {
  switch (function) {
    case v1::SCORE_FUNCTION_NONE:
      return ScoreFunction::kNone;
    case v1::SCORE_FUNCTION_SIGMOID:
      return ScoreFunction::kSigmoid;
    case v1::SCORE_FUNCTION_SOFTMAX:
      return ScoreFunction::kSoftmax;
    default:
      return std::nullopt;
  }
}

absl::StatusOr<ClassifyInput> ToInput(const v1::ClassifyInput& message, const std::string& field) {
  switch (message.kind_case()) {
    case v1::ClassifyInput::kText:
      return ClassifyInput(message.text());
    case v1::ClassifyInput::kPair:
      return ClassifyInput(TextPair{message.pair().first(), message.pair().second()});
    case v1::ClassifyInput::kIds:
      return ClassifyInput(ToIds(message.ids().ids()));
    case v1::ClassifyInput::KIND_NOT_SET:
      break;
  }
  return FieldError(field, "not given", "text, pair or ids");
}

// The common fields of Classify and Rerank.
template <typename Message>
ClassifyRequest ToClassifyRequest(const Message& message) {
  ClassifyRequest request;
  request.model = message.model();
  request.function = ToFunction(message.function());
  request.top = Optional<int32_t>(message.has_top(), message.top());
  request.truncate = ToTruncation(message.truncate());
  request.priority = message.priority();
  request.request_id = message.request_id();
  return request;
}

}  // namespace

absl::StatusOr<GenerateRequest> ToEngineRequest(const v1::GenerateRequest& message) {
  GenerateRequest request;
  request.model = message.model();
  BEAMLINE_ASSIGN_OR_RETURN(request.prompt, ToPrompt(message.prompt(), "prompt"));
  if (message.has_target_prefix()) {
    BEAMLINE_ASSIGN_OR_RETURN(request.target_prefix,
                              ToPrompt(message.target_prefix(), "target_prefix"));
  }
  request.decoding = ToDecoding(message);
  request.limits = ToLimits(message.limits());
  BEAMLINE_ASSIGN_OR_RETURN(request.shaping, ToShaping(message.shaping()));
  request.output = ToOutput(message.output());
  request.priority = message.priority();
  request.request_id = message.request_id();
  request.cache_salt = message.cache_salt();
  request.source_language = message.source_language();
  request.target_language = message.target_language();
  return request;
}

absl::StatusOr<EncodeRequest> ToEngineRequest(const v1::EncodeRequest& message) {
  // Constructed in place and returned everywhere, to avoid a copy.
  absl::StatusOr<EncodeRequest> made(absl::in_place);
  EncodeRequest& request = *made;
  request.model = message.model();
  request.inputs.reserve(static_cast<size_t>(message.inputs_size()));
  for (int i = 0; i < message.inputs_size(); ++i) {
    absl::StatusOr<Prompt> input = ToPrompt(message.inputs(i), "inputs", i);
    if (!input.ok()) {
      made = input.status();
      return made;
    }
    request.inputs.push_back(*std::move(input));
  }
  SetPooling(message.pooling(), request);
  request.normalize = Optional<bool>(message.has_normalize(), message.normalize());
  request.dimensions = Optional<int32_t>(message.has_dimensions(), message.dimensions());
  request.truncate = ToTruncation(message.truncate());
  request.prompt_name = message.prompt_name();
  request.priority = message.priority();
  request.request_id = message.request_id();
  return made;
}

absl::StatusOr<ClassifyRequest> ToEngineRequest(const v1::ClassifyRequest& message) {
  ClassifyRequest request = ToClassifyRequest(message);
  request.inputs.reserve(static_cast<size_t>(message.inputs_size()));
  for (int i = 0; i < message.inputs_size(); ++i) {
    BEAMLINE_ASSIGN_OR_RETURN(ClassifyInput input,
                              ToInput(message.inputs(i), fmt::format("inputs[{}]", i)));
    request.inputs.push_back(std::move(input));
  }
  return request;
}

absl::StatusOr<ClassifyRequest> ToEngineRequest(const v1::RerankRequest& message) {
  ClassifyRequest request = ToClassifyRequest(message);
  request.query = message.query();
  request.inputs.assign(message.documents().begin(), message.documents().end());
  return request;
}

absl::StatusOr<ClassifyTokensRequest> ToEngineRequest(const v1::ClassifyTokensRequest& message) {
  ClassifyTokensRequest request;
  request.model = message.model();
  request.inputs.assign(message.inputs().begin(), message.inputs().end());
  request.top = Optional<int32_t>(message.has_top(), message.top());
  request.num_ignored_labels = static_cast<size_t>(message.ignore_labels().labels_size());
  request.truncate = ToTruncation(message.truncate());
  request.priority = message.priority();
  request.request_id = message.request_id();
  return request;
}

absl::StatusOr<FillMaskRequest> ToEngineRequest(const v1::FillMaskRequest& message) {
  FillMaskRequest request;
  request.model = message.model();
  request.inputs.assign(message.inputs().begin(), message.inputs().end());
  if (message.has_top_k()) request.top_k = message.top_k();
  request.targets.assign(message.targets().begin(), message.targets().end());
  request.truncate = ToTruncation(message.truncate());
  request.priority = message.priority();
  request.request_id = message.request_id();
  return request;
}

absl::StatusOr<ScoreRequest> ToEngineRequest(const v1::ScoreRequest& message) {
  ScoreRequest request;
  request.model = message.model();
  BEAMLINE_ASSIGN_OR_RETURN(request.prompt, ToPrompt(message.prompt(), "prompt"));
  request.continuations.reserve(static_cast<size_t>(message.continuations_size()));
  for (int i = 0; i < message.continuations_size(); ++i) {
    BEAMLINE_ASSIGN_OR_RETURN(Prompt continuation,
                              ToPrompt(message.continuations(i), "continuations", i));
    request.continuations.push_back(std::move(continuation));
  }
  request.per_token = message.per_token();
  request.priority = message.priority();
  request.request_id = message.request_id();
  request.cache_salt = message.cache_salt();
  request.source_language = message.source_language();
  request.target_language = message.target_language();
  return request;
}

std::string_view ContractPath(std::string_view engine_path) {
  constexpr std::string_view kOneof = "decoding.";
  if (engine_path.starts_with(kOneof)) engine_path.remove_prefix(kOneof.size());
  return engine_path;
}

std::optional<Clock::time_point> EngineDeadline(std::optional<Clock::time_point> call_deadline,
                                                Clock::time_point now) {
  using std::chrono::milliseconds;
  if (!call_deadline.has_value()) return std::nullopt;
  const Clock::duration left = *call_deadline - now;
  const Clock::duration margin =
      std::clamp<Clock::duration>(left / 10, milliseconds(2), milliseconds(50));
  return *call_deadline - margin;
}

}  // namespace beamline
