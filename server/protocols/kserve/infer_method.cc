#include "server/protocols/kserve/infer_method.h"

#include <algorithm>
#include <utility>

#include "base/field_error.h"
#include "base/status.h"
#include "server/protocols/kserve/model_tensors.h"
#include "server/protocols/kserve/tensors.h"

namespace beamline {
namespace {

using inference::ModelInferResponse;

const char* ReasonName(v1::FinishReason reason) {
  switch (reason) {
    case v1::FINISH_REASON_EOS:
    case v1::FINISH_REASON_STOP:
      return "stop";
    case v1::FINISH_REASON_LENGTH:
      return "length";
    case v1::FINISH_REASON_DEADLINE:
      return "deadline";
    case v1::FINISH_REASON_CANCELLED:
      return "cancelled";
    default:
      return "";
  }
}

// Collects sequences, or their deltas, as rows of tensors.
class Rows {
 public:
  explicit Rows(const InferAnswer& answer) : answer_(answer) {}

  template <typename Part>  // v1::Sequence or v1::SequenceDelta
  void Add(const Part& part, int32_t index) {
    texts_.push_back(part.text());
    ids_.emplace_back(part.ids().begin(), part.ids().end());
    lengths_.push_back(part.ids_size());
    indexes_.push_back(index);
    std::vector<float>& logprobs = logprobs_.emplace_back();
    for (const auto& position : part.logprobs()) logprobs.push_back(position.chosen().logprob());
    has_logprobs_ = has_logprobs_ || part.logprobs_size() > 0;
  }

  void Write(ModelInferResponse& response) const {
    const auto rows = static_cast<int64_t>(texts_.size());
    if (answer_.Wants(kTextOutput)) AddTexts(kTextOutput, texts_, response);
    if (answer_.Wants("output_ids")) Pad("output_ids", ids_, answer_.pad_id, response);
    if (answer_.Wants("sequence_length")) AddNumbers("sequence_length", {rows}, lengths_, response);
    if (answer_.Wants("sequence_index")) AddNumbers("sequence_index", {rows}, indexes_, response);
    if (has_logprobs_ && answer_.Wants("output_log_probs")) {
      Pad("output_log_probs", logprobs_, 0.0f, response);
    }
  }

 private:
  template <typename T>
  static void Pad(std::string_view name, const std::vector<std::vector<T>>& rows, T padding,
                  ModelInferResponse& response) {
    size_t longest = 0;
    for (const auto& row : rows) longest = std::max(longest, row.size());
    std::vector<T> values;
    values.reserve(rows.size() * longest);
    for (const auto& row : rows) {
      values.insert(values.end(), row.begin(), row.end());
      values.resize(values.size() + longest - row.size(), padding);
    }
    AddNumbers(name, {static_cast<int64_t>(rows.size()), static_cast<int64_t>(longest)}, values,
               response);
  }

  const InferAnswer& answer_;
  std::vector<std::string> texts_;
  std::vector<std::vector<int32_t>> ids_;
  std::vector<int32_t> lengths_;
  std::vector<int32_t> indexes_;
  std::vector<std::vector<float>> logprobs_;
  bool has_logprobs_ = false;
};

// Writes the values that are known at the end only. `ends`: v1::Sequence or v1::SequenceEnd.
template <typename Ends>
void WriteEnd(const Ends& ends, const v1::Usage& usage, const InferAnswer& answer,
              ModelInferResponse& response) {
  const auto rows = static_cast<int64_t>(ends.size());
  std::vector<std::string> reasons;
  std::vector<float> logprobs;
  for (const auto& end : ends) {
    reasons.emplace_back(ReasonName(end.finish_reason()));
    logprobs.push_back(static_cast<float>(end.cumulative_logprob()));
  }
  if (answer.Wants("finish_reason")) AddTexts("finish_reason", reasons, response);
  for (const char* name : {"cum_log_probs", "cumulative_logprob"}) {
    if (answer.Wants(name)) AddNumbers(name, {rows}, logprobs, response);
  }
  const auto add = [&](const char* name, int32_t number) {
    if (!answer.Wants(name)) return;
    AddNumbers(name, {1}, std::vector<uint32_t>{static_cast<uint32_t>(number)}, response);
  };
  add("num_input_tokens", usage.prompt_tokens());
  add("num_output_tokens", usage.generated_tokens());
}

// A sink of the engine that forwards to the call's InferSink.
template <typename Base, typename Result>
class Adapter final : public Base {
 public:
  Adapter(std::shared_ptr<InferSink> sink, OptionNames names)
      : sink_(std::move(sink)), names_(std::move(names)) {}
  void OnFinish(absl::StatusOr<Result> result) override {
    if (!result.ok()) return sink_->OnFinish(InInferRequest(result.status(), names_));
    sink_->OnFinish(InferResult(*std::move(result)));
  }

 private:
  const std::shared_ptr<InferSink> sink_;
  const OptionNames names_;
};

}  // namespace

bool InferAnswer::Wants(std::string_view output) const {
  return outputs.empty() ? !left_out.contains(output) : outputs.contains(output);
}

ModelInferResponse EmptyInferResponse(const InferAnswer& answer) {
  ModelInferResponse response;
  response.set_model_name(answer.model_name);
  response.set_model_version(answer.model_version);
  response.set_id(answer.id);
  return response;
}

ModelInferResponse ToInferResponse(const v1::GenerateResponse& message, const InferAnswer& answer) {
  ModelInferResponse response = EmptyInferResponse(answer);
  Rows rows(answer);
  for (int i = 0; i < message.sequences_size(); ++i) rows.Add(message.sequences(i), i);
  rows.Write(response);
  WriteEnd(message.sequences(), message.usage(), answer, response);
  return response;
}

ModelInferResponse ToInferResponse(const v1::GenerateStreamResponse& message,
                                   const InferAnswer& answer) {
  ModelInferResponse response = EmptyInferResponse(answer);
  Rows rows(answer);
  if (!message.has_end()) {
    for (const v1::SequenceDelta& delta : message.deltas()) rows.Add(delta, delta.sequence());
    rows.Write(response);
    return response;
  }
  for (const v1::SequenceEnd& end : message.end().sequences()) {
    v1::SequenceDelta row;
    for (const v1::SequenceDelta& delta : message.deltas()) {
      if (delta.sequence() == end.sequence()) row = delta;
    }
    rows.Add(row, end.sequence());
  }
  rows.Write(response);
  WriteEnd(message.end().sequences(), message.end().usage(), answer, response);
  return response;
}

ModelInferResponse ToInferResponse(const v1::EncodeResponse& message, const InferAnswer& answer) {
  ModelInferResponse response = EmptyInferResponse(answer);
  const int64_t rows = message.embeddings_size();
  const int64_t dimensions = rows == 0 ? 0 : message.embeddings(0).dimensions();
  std::vector<float> values;
  std::vector<uint32_t> lengths;
  values.reserve(static_cast<size_t>(rows * dimensions));
  for (const v1::Embedding& embedding : message.embeddings()) {
    values.insert(values.end(), embedding.values().begin(), embedding.values().end());
    lengths.push_back(static_cast<uint32_t>(embedding.num_tokens()));
  }
  if (answer.Wants(kEmbeddingOutput)) {
    AddNumbers(kEmbeddingOutput, {rows, dimensions}, values, response);
  }
  if (answer.Wants("num_input_tokens")) AddNumbers("num_input_tokens", {rows}, lengths, response);
  return response;
}

absl::StatusOr<std::shared_ptr<RequestHandle>> InferMethod::Submit(CallState& call,
                                                                   const Request& message,
                                                                   const Caller& caller,
                                                                   std::shared_ptr<Sink> sink,
                                                                   Options& answer) {
  BEAMLINE_ASSIGN_OR_RETURN(const InferTranslation translation,
                            TranslateInfer(call, message, caller));
  if (translation.stream) {
    return FieldError("stream", "true", "false; ModelStreamInfer answers as the text is written");
  }
  return Submit(call, translation, caller, std::move(sink), answer);
}

absl::StatusOr<std::shared_ptr<RequestHandle>> InferMethod::Submit(
    CallState& call, const InferTranslation& translation, const Caller& caller,
    std::shared_ptr<Sink> sink, Options& answer) {
  answer = translation.answer;
  Caller until = caller;
  until.deadline = translation.deadline;
  absl::StatusOr<std::shared_ptr<RequestHandle>> handle;
  if (const auto* generate = std::get_if<v1::GenerateRequest>(&translation.request)) {
    auto adapter =
        std::make_shared<Adapter<GenerateSink, GenerateResult>>(std::move(sink), answer.names);
    handle = GenerateMethod::Submit(call, *generate, until, std::move(adapter), answer.answer);
  } else {
    auto adapter =
        std::make_shared<Adapter<EncodeSink, EncodeResult>>(std::move(sink), answer.names);
    handle = EncodeMethod::Submit(call, std::get<v1::EncodeRequest>(translation.request), until,
                                  std::move(adapter), answer.answer);
  }
  if (!handle.ok()) return InInferRequest(handle.status(), answer.names);
  return handle;
}

absl::StatusOr<ModelInferResponse> InferMethod::Answer(CallState& call, const Result& result,
                                                       const Options& answer) {
  if (const auto* generated = std::get_if<GenerateResult>(&result)) {
    BEAMLINE_ASSIGN_OR_RETURN(const v1::GenerateResponse response,
                              GenerateMethod::Answer(call, *generated, answer.answer));
    return ToInferResponse(response, answer);
  }
  BEAMLINE_ASSIGN_OR_RETURN(
      const v1::EncodeResponse response,
      EncodeMethod::Answer(call, std::get<EncodeResult>(result), answer.answer));
  return ToInferResponse(response, answer);
}

bool InferMethod::IsBrief(const Result& result) {
  if (const auto* generated = std::get_if<GenerateResult>(&result)) {
    return GenerateMethod::IsBrief(*generated);
  }
  return EncodeMethod::IsBrief(std::get<EncodeResult>(result));
}

}  // namespace beamline
