#include "server/protocols/tei/tei_methods.h"

#include <algorithm>
#include <limits>
#include <string_view>
#include <utility>

#include "base/field_error.h"
#include "base/status.h"
#include "base/utf8.h"
#include "fmt/format.h"
#include "server/protocols/rename_field.h"
#include "server/wire/errors.h"

namespace beamline {
namespace {

// Renames fields in errors that the engine finds later.
class RenamingSink final : public EncodeSink {
 public:
  explicit RenamingSink(std::shared_ptr<EncodeSink> sink) : sink_(std::move(sink)) {}
  void OnFinish(absl::StatusOr<EncodeResult> result) override {
    if (!result.ok()) return sink_->OnFinish(InTeiRequest(result.status()));
    sink_->OnFinish(std::move(result));
  }

 private:
  const std::shared_ptr<EncodeSink> sink_;
};

template <typename Request>
v1::Truncation TruncationOf(const Request& message) {
  if (!message.truncate()) return v1::TRUNCATION_NONE;
  return message.truncation_direction() == tei::v1::TRUNCATION_DIRECTION_LEFT
             ? v1::TRUNCATION_LEFT
             : v1::TRUNCATION_RIGHT;
}

template <typename Request>
v1::EncodeRequest ToEncodeRequest(const Request& message, const Caller& caller) {
  v1::EncodeRequest request;
  request.set_model(caller.model);
  request.add_inputs()->set_text(message.inputs());
  request.set_truncate(TruncationOf(message));
  request.set_prompt_name(message.prompt_name());
  return request;
}

uint32_t NumChars(std::string_view text) {
  return static_cast<uint32_t>(
      std::ranges::count_if(text, [](char byte) { return !IsContinuationByte(byte); }));
}

absl::StatusOr<std::shared_ptr<RequestHandle>> SubmitEncode(CallState& call,
                                                            const v1::EncodeRequest& request,
                                                            const Caller& caller,
                                                            std::shared_ptr<EncodeSink> sink,
                                                            TeiAnswer& answer) {
  answer.num_chars = NumChars(request.inputs(0).text());
  auto handle = EncodeMethod::Submit(
      call, request, caller, std::make_shared<RenamingSink>(std::move(sink)), answer.answer);
  if (!handle.ok()) return InTeiRequest(handle.status());
  return handle;
}

void SetMetadata(const EncodeResult& result, uint32_t num_chars, tei::v1::Metadata& metadata) {
  metadata.set_compute_chars(num_chars);
  metadata.set_compute_tokens(static_cast<uint32_t>(result.usage.prompt_tokens));
  metadata.set_total_time_ns(static_cast<uint64_t>(result.timing.total.count()));
  metadata.set_queue_time_ns(static_cast<uint64_t>(result.timing.queue.count()));
  metadata.set_inference_time_ns(
      static_cast<uint64_t>((result.timing.total - result.timing.queue).count()));
}

// All classes or texts, the best first.
constexpr int32_t kAll = std::numeric_limits<int32_t>::max();

absl::StatusOr<v1::ClassifyInput> InputOf(const tei::v1::PredictRequest& message) {
  v1::ClassifyInput input;
  input.set_text(message.inputs());
  return input;
}

absl::StatusOr<v1::ClassifyInput> InputOf(const tei::v1::PredictPairRequest& message) {
  if (message.inputs_size() != 2) {
    return FieldError("inputs", fmt::format("{} texts", message.inputs_size()), "2 texts");
  }
  v1::ClassifyInput input;
  input.mutable_pair()->set_first(message.inputs(0));
  input.mutable_pair()->set_second(message.inputs(1));
  return input;
}

// The bytes [begin, end) of a text, with invalid UTF-8 replaced.
std::string LossyPart(std::string_view text, size_t begin, size_t end) {
  std::string pending(text.substr(begin, end - begin));
  std::string part;
  DrainLossy(&pending, /*at_end=*/true, &part);
  return part;
}

}  // namespace

absl::Status InTeiRequest(const absl::Status& status) {
  return RenameField(status, [](std::string_view path) -> std::string {
    if (path == "model") return "metadata x-model";
    if (path.starts_with("inputs[0]") || path == "text") return "inputs";
    constexpr std::string_view kDocuments = "documents";
    if (path.starts_with(kDocuments)) {
      return fmt::format("texts{}", path.substr(kDocuments.size()));
    }
    return std::string(path);
  });
}

absl::StatusOr<std::shared_ptr<RequestHandle>> TeiEmbedMethod::Submit(CallState& call,
                                                                      const Request& message,
                                                                      const Caller& caller,
                                                                      std::shared_ptr<Sink> sink,
                                                                      Options& answer) {
  v1::EncodeRequest request = ToEncodeRequest(message, caller);
  request.set_normalize(!message.has_normalize() || message.normalize());
  if (message.has_dimensions()) {
    constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
    BEAMLINE_RETURN_IF_ERROR(CheckInt("dimensions", message.dimensions(), 1, kMost));
    request.set_dimensions(static_cast<int32_t>(message.dimensions()));
  }
  return SubmitEncode(call, request, caller, std::move(sink), answer);
}

absl::StatusOr<tei::v1::EmbedResponse> TeiEmbedMethod::Answer(CallState& call, const Result& result,
                                                              const Options& answer) {
  BEAMLINE_ASSIGN_OR_RETURN(const v1::EncodeResponse encoded,
                            EncodeMethod::Answer(call, result, answer.answer));
  Response response;
  *response.mutable_embeddings() = encoded.embeddings(0).values();
  SetMetadata(result, answer.num_chars, *response.mutable_metadata());
  return response;
}

absl::StatusOr<std::shared_ptr<RequestHandle>> TeiEmbedAllMethod::Submit(CallState& call,
                                                                         const Request& message,
                                                                         const Caller& caller,
                                                                         std::shared_ptr<Sink> sink,
                                                                         Options& answer) {
  v1::EncodeRequest request = ToEncodeRequest(message, caller);
  request.set_pooling(v1::POOLING_NONE);
  request.set_normalize(false);
  return SubmitEncode(call, request, caller, std::move(sink), answer);
}

absl::StatusOr<tei::v1::EmbedAllResponse> TeiEmbedAllMethod::Answer(CallState& call,
                                                                    const Result& result,
                                                                    const Options& answer) {
  BEAMLINE_ASSIGN_OR_RETURN(const v1::EncodeResponse encoded,
                            EncodeMethod::Answer(call, result, answer.answer));
  const v1::Embedding& embedding = encoded.embeddings(0);
  Response response;
  auto value = embedding.values().begin();
  for (int32_t i = 0; i < embedding.num_vectors(); ++i) {
    response.add_token_embeddings()->mutable_embeddings()->Add(value,
                                                               value + embedding.dimensions());
    value += embedding.dimensions();
  }
  SetMetadata(result, answer.num_chars, *response.mutable_metadata());
  return response;
}

template <typename PredictRequest>
absl::StatusOr<std::shared_ptr<RequestHandle>> TeiPredictMethod<PredictRequest>::Submit(
    CallState& call, const Request& message, const Caller& caller, std::shared_ptr<Sink> sink,
    Options& answer) {
  v1::ClassifyRequest request;
  request.set_model(caller.model);
  BEAMLINE_ASSIGN_OR_RETURN(*request.add_inputs(), InputOf(message));
  const v1::ClassifyInput& input = request.inputs(0);
  answer.num_chars =
      NumChars(input.text()) + NumChars(input.pair().first()) + NumChars(input.pair().second());
  request.set_truncate(TruncationOf(message));
  if (message.raw_scores()) request.set_function(v1::SCORE_FUNCTION_NONE);
  request.set_top(kAll);
  auto handle = ClassifyMethod::Submit(
      call, request, caller, std::make_shared<RenamingSink>(std::move(sink)), answer.classified);
  if (!handle.ok()) return InTeiRequest(handle.status());
  return handle;
}

template <typename PredictRequest>
absl::StatusOr<tei::v1::PredictResponse> TeiPredictMethod<PredictRequest>::Answer(
    CallState& call, const Result& result, const Options& answer) {
  BEAMLINE_ASSIGN_OR_RETURN(const v1::ClassifyResponse classified,
                            ClassifyMethod::Answer(call, result, answer.classified));
  Response response;
  for (const v1::ClassScore& one : classified.classifications(0).classes()) {
    tei::v1::Prediction& prediction = *response.add_predictions();
    prediction.set_label(one.label());
    prediction.set_score(one.score());
  }
  SetMetadata(result, answer.num_chars, *response.mutable_metadata());
  return response;
}

template struct TeiPredictMethod<tei::v1::PredictRequest>;
template struct TeiPredictMethod<tei::v1::PredictPairRequest>;

absl::StatusOr<std::shared_ptr<RequestHandle>> TeiRerankMethod::Submit(CallState& call,
                                                                       const Request& message,
                                                                       const Caller& caller,
                                                                       std::shared_ptr<Sink> sink,
                                                                       Options& answer) {
  v1::RerankRequest request;
  request.set_model(caller.model);
  request.set_query(message.query());
  *request.mutable_documents() = message.texts();
  request.set_truncate(TruncationOf(message));
  request.set_function(message.raw_scores() ? v1::SCORE_FUNCTION_NONE : v1::SCORE_FUNCTION_SIGMOID);
  request.set_top(kAll);
  answer.num_chars = NumChars(message.query());
  for (const std::string& text : message.texts()) answer.num_chars += NumChars(text);
  if (message.return_text()) answer.texts.assign(message.texts().begin(), message.texts().end());
  auto handle = RerankMethod::Submit(
      call, request, caller, std::make_shared<RenamingSink>(std::move(sink)), answer.ranked);
  if (!handle.ok()) return InTeiRequest(handle.status());
  return handle;
}

absl::StatusOr<tei::v1::RerankResponse> TeiRerankMethod::Answer(CallState& call,
                                                                const Result& result,
                                                                const Options& answer) {
  BEAMLINE_ASSIGN_OR_RETURN(const v1::RerankResponse ranked,
                            RerankMethod::Answer(call, result, answer.ranked));
  Response response;
  for (const v1::RankedDocument& document : ranked.documents()) {
    tei::v1::Rank& rank = *response.add_ranks();
    rank.set_index(static_cast<uint32_t>(document.index()));
    rank.set_score(document.score());
    if (!answer.texts.empty()) rank.set_text(answer.texts[static_cast<size_t>(document.index())]);
  }
  SetMetadata(result, answer.num_chars, *response.mutable_metadata());
  return response;
}

ModelDirectory::Use TeiUse(const ModelDirectory& models, const std::string& name) {
  using Use = ModelDirectory::Use;
  if (name.empty()) {
    for (const Use use : {Use::kEncode, Use::kClassify, Use::kRerank}) {
      if (models.Resolve(name, use).ok()) return use;
    }
    return Use::kEncode;
  }
  const ModelDirectory::ModelPtr model = models.Find(name);
  if (model == nullptr) return Use::kEncode;
  if (model->task == ModelTask::kClassify) return Use::kClassify;
  return model->reranks ? Use::kRerank : Use::kEncode;
}

absl::StatusOr<TeiTokenizeMethod::Prepared> TeiTokenizeMethod::Prepare(CallState& call,
                                                                       const Request& message,
                                                                       const std::string& model) {
  if (!message.prompt_name().empty()) {
    return FieldError("prompt_name", "given", "nothing; texts are tokenized as they are");
  }
  auto chosen = ChooseTokenizer(call, model, TeiUse(call.services().models, model));
  if (!chosen.ok()) return InTeiRequest(chosen.status());
  Prepared prepared = {*std::move(chosen), {}};
  prepared.request.set_text(message.inputs());
  prepared.request.set_add_special_tokens(message.add_special_tokens());
  return prepared;
}

absl::StatusOr<tei::v1::EncodeResponse> TeiTokenizeMethod::Answer(const Prepared& prepared,
                                                                  const Request& message,
                                                                  int64_t max_bytes) {
  Response response;
  int64_t bytes = 0;
  const auto visit = [&](const v1::Token& token) {
    tei::v1::SimpleToken& out = *response.add_tokens();
    out.set_id(static_cast<uint32_t>(token.id()));
    if (token.begin() == token.end() && token.special()) {
      out.set_special(true);
      out.set_text(token.piece());
    } else {
      out.set_text(LossyPart(message.inputs(), static_cast<size_t>(token.begin()),
                             static_cast<size_t>(token.end())));
      out.set_start(static_cast<uint32_t>(token.begin()));
      out.set_stop(static_cast<uint32_t>(token.end()));
    }
    bytes += static_cast<int64_t>(out.ByteSizeLong());
    return bytes > max_bytes ? AnswerTooLarge(bytes, max_bytes) : absl::OkStatus();
  };
  const absl::Status visited = TokenizeMethod::Visit(prepared.chosen, prepared.request, visit);
  if (!visited.ok()) return InTeiRequest(visited);
  return response;
}

absl::StatusOr<TeiDecodeMethod::Prepared> TeiDecodeMethod::Prepare(CallState& call,
                                                                   const Request& message,
                                                                   const std::string& model) {
  auto chosen = ChooseTokenizer(call, model, TeiUse(call.services().models, model));
  if (!chosen.ok()) return InTeiRequest(chosen.status());
  Prepared prepared;
  prepared.request.set_model(chosen->model);
  for (int i = 0; i < message.ids_size(); ++i) {
    BEAMLINE_RETURN_IF_ERROR(CheckInt(fmt::format("ids[{}]", i), message.ids(i), 0,
                                      std::numeric_limits<int32_t>::max()));
    prepared.request.add_ids(static_cast<int32_t>(message.ids(i)));
  }
  prepared.request.set_skip_special_tokens(message.skip_special_tokens());
  BEAMLINE_ASSIGN_OR_RETURN(prepared.chosen, DetokenizeMethod::Prepare(call, prepared.request));
  return prepared;
}

absl::StatusOr<tei::v1::DecodeResponse> TeiDecodeMethod::Answer(const Prepared& prepared,
                                                                const Request&, int64_t max_bytes) {
  BEAMLINE_ASSIGN_OR_RETURN(v1::DetokenizeResponse text,
                            DetokenizeMethod::Answer(prepared.chosen, prepared.request, max_bytes));
  Response response;
  response.set_text(std::move(*text.mutable_text()));
  return response;
}

}  // namespace beamline
