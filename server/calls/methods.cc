#include "server/calls/methods.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/status.h"
#include "fmt/format.h"
#include "server/wire/request.h"

namespace beamline {
namespace {

absl::Status CheckComplete(const GenerateResult& result) {
  for (const GeneratedSequence& sequence : result.sequences) {
    if (sequence.finish_reason == FinishReason::kDeadline) {
      return absl::DeadlineExceededError(
          fmt::format("the deadline passed after {} tokens; GenerateStream returns what there is",
                      result.usage.generated_tokens));
    }
    if (sequence.finish_reason == FinishReason::kCancelled) {
      return absl::CancelledError("the request was cancelled");
    }
  }
  return absl::OkStatus();
}

// Limit of a brief answer: its bytes in memory plus kMessageBytes for each message in it.
constexpr size_t kMostBriefBytes = 16 << 10;
constexpr size_t kMessageBytes = 32;

size_t Bytes(const std::vector<PositionLogprobs>& positions) {
  size_t bytes = 0;
  for (const PositionLogprobs& position : positions) {
    bytes += kMessageBytes * (1 + position.top.size());
  }
  return bytes;
}

// Resolves the model that `message` names, and fills the model and request_id of `answer`.
template <typename Message>
absl::StatusOr<ModelDirectory::ModelPtr> ResolveModel(CallState& call, const Message& message,
                                                      ModelDirectory::Use use,
                                                      AnswerOptions& answer) {
  BEAMLINE_ASSIGN_OR_RETURN(
      auto model, call.CountRefusal(call.services().models.Resolve(message.model(), use)));
  call.SetModel(model->name);
  answer.model = message.model().empty() ? model->name : message.model();
  answer.request_id = message.request_id();
  return model;
}

// Converts to the engine's request, for the model of `answer`.
template <typename Message>
auto Convert(CallState& call, const Message& message, const Caller& caller,
             const AnswerOptions& answer) {
  auto request = ToEngineRequest(message);
  if (!request.ok()) return request;
  request->model = answer.model;
  request->client = caller.client;
  request->charge = caller.charge != nullptr ? caller.charge : OpenCharge(call.services(), caller);
  if constexpr (requires { request->cache_salt; }) {
    // A salt that is too long is left as it is, and the engine refuses it.
    if (caller.is_identity && call.services().gate->isolates() &&
        request->cache_salt.size() <= LimitOf("cache_salt").size->max) {
      request->cache_salt = SaltOf(caller.client, request->cache_salt);
    }
  }
  // A priority above the API's own limit is left as it is, and the engine refuses it.
  const int32_t most = call.services().stream_limits.max_priority;
  if (request->priority <= LimitOf("priority").value->max) {
    request->priority = std::min(request->priority, most);
  }
  request->max_answer_bytes = call.services().stream_limits.max_send_bytes;
  if (caller.deadline.has_value()) {
    request->deadline = EngineDeadline(caller.deadline, Clock::now());
  }
  return request;
}

template <typename Message>
absl::StatusOr<std::shared_ptr<RequestHandle>> SubmitClassify(CallState& call,
                                                              const Message& message,
                                                              const Caller& caller,
                                                              std::shared_ptr<EncodeSink> sink,
                                                              ClassifyAnswer& answer) {
  constexpr auto kUse = std::is_same_v<Message, v1::RerankRequest> ? ModelDirectory::Use::kRerank
                                                                   : ModelDirectory::Use::kClassify;
  BEAMLINE_ASSIGN_OR_RETURN(answer.model, ResolveModel(call, message, kUse, answer.answer));
  if (message.has_top()) answer.top = message.top();
  BEAMLINE_ASSIGN_OR_RETURN(auto request, Convert(call, message, caller, answer.answer));
  request.model = answer.model->versioned_name;  // the version whose labels the answer has
  return call.CountRefusal(call.services().engine.Classify(std::move(request), std::move(sink)));
}

// Upper bound of the bytes of an answer with all vectors, before texts are tokenized. A token has
// at least one byte.
int64_t MostAnswerBytes(const EncodeRequest& request, const ModelInfo& model) {
  constexpr int64_t kSpecialTokens = 8;
  constexpr int64_t kNoLimit = 1 << 30;
  int64_t vectors = 0;
  for (const Prompt& input : request.inputs) {
    int64_t tokens = model.max_input_tokens > 0 ? model.max_input_tokens : kNoLimit;
    if (const auto* text = std::get_if<std::string>(&input)) {
      tokens = std::min(tokens, static_cast<int64_t>(text->size()) + kSpecialTokens);
    } else if (const auto* ids = std::get_if<TokenIds>(&input)) {
      tokens = std::min(tokens, static_cast<int64_t>(ids->size()));
    }
    vectors += request.per_token ? tokens : 1;
  }
  const int32_t dimensions =
      request.dimensions.value_or(std::max(model.hidden_size, model.embedding_dimensions));
  return vectors * dimensions * static_cast<int64_t>(sizeof(float));
}

}  // namespace

absl::StatusOr<PreparedGenerate> PrepareGenerate(CallState& call,
                                                 const v1::GenerateRequest& message,
                                                 const Caller& caller) {
  PreparedGenerate prepared;
  BEAMLINE_RETURN_IF_ERROR(
      ResolveModel(call, message, ModelDirectory::Use::kGenerate, prepared.answer).status());
  BEAMLINE_ASSIGN_OR_RETURN(prepared.request, Convert(call, message, caller, prepared.answer));
  // Temperature 0 samples nothing, so there is no seed to return.
  const v1::Sampling& sampling = message.sampling();
  prepared.answer.sampling =
      message.has_sampling() && !(sampling.has_temperature() && sampling.temperature() == 0);
  prepared.answer.return_token_ids = prepared.request.output.return_token_ids;
  return prepared;
}

absl::StatusOr<std::shared_ptr<RequestHandle>> GenerateMethod::Submit(CallState& call,
                                                                      const Request& message,
                                                                      const Caller& caller,
                                                                      std::shared_ptr<Sink> sink,
                                                                      AnswerOptions& answer) {
  BEAMLINE_ASSIGN_OR_RETURN(PreparedGenerate prepared, PrepareGenerate(call, message, caller));
  answer = std::move(prepared.answer);
  return call.CountRefusal(
      call.services().engine.Generate(std::move(prepared.request), std::move(sink)));
}

absl::StatusOr<v1::GenerateResponse> GenerateMethod::Answer(CallState& call, const Result& result,
                                                            const AnswerOptions& answer) {
  call.SetAnswer(result.timing, result.usage);
  BEAMLINE_RETURN_IF_ERROR(CheckComplete(result));
  return ToMessage(result, answer);
}

bool GenerateMethod::IsBrief(const Result& result) {
  size_t bytes = Bytes(result.prompt_logprobs);
  for (const GeneratedSequence& sequence : result.sequences) {
    bytes += kMessageBytes + sequence.text.size() +
             sizeof(TokenIds::value_type) * sequence.ids.size() + Bytes(sequence.logprobs);
  }
  return bytes <= kMostBriefBytes;
}

absl::StatusOr<std::shared_ptr<RequestHandle>> EncodeMethod::Submit(CallState& call,
                                                                    const Request& message,
                                                                    const Caller& caller,
                                                                    std::shared_ptr<Sink> sink,
                                                                    AnswerOptions& answer) {
  BEAMLINE_ASSIGN_OR_RETURN(const auto model,
                            ResolveModel(call, message, ModelDirectory::Use::kEncode, answer));
  absl::StatusOr<EncodeRequest> request = Convert(call, message, caller, answer);
  if (!request.ok()) return request.status();
  const int64_t most_bytes = std::min(MostAnswerBytes(*request, *model), request->max_answer_bytes);
  BEAMLINE_ASSIGN_OR_RETURN(const AnswerRoom::PlacePtr place, call.TakeRoom(most_bytes));
  if (place != nullptr) {
    request->on_answer_bytes = [place = std::weak_ptr(place)](int64_t bytes) {
      if (const auto alive = place.lock()) alive->Set(bytes);
    };
  }
  return call.CountRefusal(call.services().engine.Encode(*std::move(request), std::move(sink)));
}

absl::StatusOr<v1::EncodeResponse> EncodeMethod::Answer(CallState& call, const Result& result,
                                                        const AnswerOptions& answer) {
  Response message;
  Answer(call, result, answer, message);
  return message;
}

void EncodeMethod::Answer(CallState& call, const Result& result, const AnswerOptions& answer,
                          Response& message) {
  call.SetAnswer(result.timing, result.usage);
  FillMessage(result, answer, message);
}

bool EncodeMethod::IsBrief(const Result& result) {
  size_t bytes = 0;
  for (const Embedding& embedding : result.embeddings) {
    bytes += kMessageBytes + sizeof(float) * embedding.values.size();
  }
  return bytes <= kMostBriefBytes;
}

absl::StatusOr<std::shared_ptr<RequestHandle>> ClassifyMethod::Submit(CallState& call,
                                                                      const Request& message,
                                                                      const Caller& caller,
                                                                      std::shared_ptr<Sink> sink,
                                                                      Options& answer) {
  return SubmitClassify(call, message, caller, std::move(sink), answer);
}

absl::StatusOr<v1::ClassifyResponse> ClassifyMethod::Answer(CallState& call, const Result& result,
                                                            const Options& answer) {
  call.SetAnswer(result.timing, result.usage);
  return ToClassifyMessage(result, answer.model->labels, answer.top, answer.answer);
}

bool ClassifyMethod::IsBrief(const Result& result) {
  size_t bytes = 0;
  for (const Embedding& scores : result.embeddings) {
    bytes += kMessageBytes * (1 + scores.values.size());
  }
  return bytes <= kMostBriefBytes;
}

absl::StatusOr<std::shared_ptr<RequestHandle>> RerankMethod::Submit(CallState& call,
                                                                    const Request& message,
                                                                    const Caller& caller,
                                                                    std::shared_ptr<Sink> sink,
                                                                    Options& answer) {
  return SubmitClassify(call, message, caller, std::move(sink), answer);
}

absl::StatusOr<v1::RerankResponse> RerankMethod::Answer(CallState& call, const Result& result,
                                                        const Options& answer) {
  call.SetAnswer(result.timing, result.usage);
  return ToRerankMessage(result, answer.top, answer.answer);
}

absl::StatusOr<std::shared_ptr<RequestHandle>> ClassifyTokensMethod::Submit(
    CallState& call, const Request& message, const Caller& caller, std::shared_ptr<Sink> sink,
    Options& answer) {
  BEAMLINE_ASSIGN_OR_RETURN(
      answer.model,
      ResolveModel(call, message, ModelDirectory::Use::kClassifyTokens, answer.answer));
  BEAMLINE_ASSIGN_OR_RETURN(auto request, Convert(call, message, caller, answer.answer));
  request.model = answer.model->versioned_name;  // the version whose labels the answer has
  BEAMLINE_ASSIGN_OR_RETURN(answer.tokenizer, call.services().engine.FindTokenizer(request.model));
  answer.asked = ToTokenAnswerOptions(message);
  return call.CountRefusal(
      call.services().engine.ClassifyTokens(std::move(request), std::move(sink)));
}

absl::StatusOr<v1::ClassifyTokensResponse> ClassifyTokensMethod::Answer(CallState& call,
                                                                        const Result& result,
                                                                        const Options& answer) {
  call.SetAnswer(result.timing, result.usage);
  return ToClassifyTokensMessage(result, answer.model->labels, *answer.tokenizer, answer.asked,
                                 answer.answer);
}

bool ClassifyTokensMethod::IsBrief(const Result& result) {
  size_t bytes = 0;
  for (const Embedding& scores : result.embeddings) {
    bytes += kMessageBytes * (1 + scores.values.size());
  }
  return bytes <= kMostBriefBytes;
}

absl::StatusOr<std::shared_ptr<RequestHandle>> FillMaskMethod::Submit(CallState& call,
                                                                      const Request& message,
                                                                      const Caller& caller,
                                                                      std::shared_ptr<Sink> sink,
                                                                      Options& answer) {
  BEAMLINE_ASSIGN_OR_RETURN(
      const auto model, ResolveModel(call, message, ModelDirectory::Use::kFillMask, answer.answer));
  BEAMLINE_ASSIGN_OR_RETURN(auto request, Convert(call, message, caller, answer.answer));
  request.model = model->versioned_name;  // the version whose tokenizer makes the texts
  BEAMLINE_ASSIGN_OR_RETURN(answer.tokenizer, call.services().engine.FindTokenizer(request.model));
  return call.CountRefusal(call.services().engine.FillMask(std::move(request), std::move(sink)));
}

absl::StatusOr<v1::FillMaskResponse> FillMaskMethod::Answer(CallState& call, const Result& result,
                                                            const Options& answer) {
  call.SetAnswer(result.timing, result.usage);
  return ToFillMaskMessage(result, *answer.tokenizer, answer.answer);
}

// Each token is returned with the whole text.
bool FillMaskMethod::IsBrief(const Result& result) {
  size_t bytes = 0;
  for (size_t i = 0; i < result.masks.size(); ++i) {
    for (const FilledMask& mask : result.masks[i]) {
      bytes += kMessageBytes * mask.tokens.size() * (1 + result.tokens[i].size());
    }
  }
  return bytes <= kMostBriefBytes;
}

absl::StatusOr<std::shared_ptr<RequestHandle>> ScoreMethod::Submit(CallState& call,
                                                                   const Request& message,
                                                                   const Caller& caller,
                                                                   std::shared_ptr<Sink> sink,
                                                                   AnswerOptions& answer) {
  BEAMLINE_RETURN_IF_ERROR(
      ResolveModel(call, message, ModelDirectory::Use::kScore, answer).status());
  BEAMLINE_ASSIGN_OR_RETURN(auto request, Convert(call, message, caller, answer));
  return call.CountRefusal(call.services().engine.Score(std::move(request), std::move(sink)));
}

absl::StatusOr<v1::ScoreResponse> ScoreMethod::Answer(CallState& call, const Result& result,
                                                      const AnswerOptions& answer) {
  call.SetAnswer(result.timing, result.usage);
  return ToMessage(result, answer);
}

bool ScoreMethod::IsBrief(const Result& result) {
  size_t bytes = 0;
  for (const ContinuationScore& score : result.scores) {
    bytes += kMessageBytes * (1 + score.tokens.size());
  }
  return bytes <= kMostBriefBytes;
}

}  // namespace beamline
