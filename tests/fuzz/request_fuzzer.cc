// A request of any bytes: parsed, and converted to what the engine takes. The first byte chooses
// the message, 'A' for the first one of kMakers. Most mutations are of fields, not of bytes.
#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "base/check.h"
#include "base/status.h"
#include "base/text.h"
#include "base/utf8.h"
#include "beamline/v1/inference.pb.h"
#include "beamline/v1/models.pb.h"
#include "google/protobuf/stubs/logging.h"
#include "google/rpc/error_details.pb.h"
#include "grpcpp/support/byte_buffer.h"
#include "server/protocols/kserve/infer_method.h"
#include "server/wire/errors.h"
#include "server/wire/model_options.h"
#include "server/wire/request.h"
#include "server/wire/wire.h"
#include "tests/fuzz/checks.h"
#include "tests/fuzz/message_mutator.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace beamline {
namespace {

using google::protobuf::Message;

template <typename T>
std::unique_ptr<Message> Make() {
  return std::make_unique<T>();
}

// New ones go to the end: the corpus counts on the order.
constexpr std::array kMakers = {
    Make<v1::GenerateRequest>,  Make<v1::EncodeRequest>,           Make<v1::ScoreRequest>,
    Make<v1::TokenizeRequest>,  Make<v1::DetokenizeRequest>,       Make<v1::GetModelRequest>,
    Make<v1::LoadModelRequest>, Make<v1::UnloadModelRequest>,      Make<v1::RestartReplicaRequest>,
    Make<v1::ClassifyRequest>,  Make<v1::RerankRequest>,           Make<v1::ClassifyTokensRequest>,
    Make<v1::FillMaskRequest>,  Make<inference::ModelInferRequest>};

std::unique_ptr<Message> NewMessage(uint8_t type) {
  return kMakers[static_cast<uint8_t>(type - 'A') % kMakers.size()]();
}

// The error names a field of the request, unless the bytes are no message at all.
void CheckNamesAField(const absl::Status& status, const Message& request) {
  BEAMLINE_CHECK(absl::IsInvalidArgument(status));
  const google::rpc::Status details = ToRpcStatus(status);
  BEAMLINE_CHECK(IsValidUtf8(details.message()));
  if (details.message().starts_with("the request is not a ")) return;
  google::rpc::BadRequest bad_request;
  BEAMLINE_CHECK(details.details_size() == 1 && details.details(0).UnpackTo(&bad_request));
  BEAMLINE_CHECK(bad_request.field_violations_size() == 1);
  const std::string& field = bad_request.field_violations(0).field();
  if (!IsFieldPath(*request.GetDescriptor(), field))
    std::fprintf(stderr, "field '%s'\n", field.c_str());
  BEAMLINE_CHECK(IsFieldPath(*request.GetDescriptor(), field));
}

void CheckLists(const GenerateRequest& request, const v1::GenerateRequest& message) {
  const auto is_all = [](size_t size, int count) { return size == static_cast<size_t>(count); };
  BEAMLINE_CHECK(is_all(request.limits.stop.size(), message.limits().stop_size()));
  BEAMLINE_CHECK(
      is_all(request.limits.stop_token_ids.size(), message.limits().stop_token_ids_size()));
  BEAMLINE_CHECK(request.shaping.logit_bias.size() == message.shaping().logit_bias().size());
  BEAMLINE_CHECK(is_all(request.shaping.bad_words.size(), message.shaping().bad_words_size()));
  BEAMLINE_CHECK(
      is_all(request.shaping.suppress_tokens.size(), message.shaping().suppress_tokens_size()));
  BEAMLINE_CHECK(request.request_id == message.request_id());
  BEAMLINE_CHECK(request.cache_salt == message.cache_salt());
  for (const auto& [id, bias] : request.shaping.logit_bias) BEAMLINE_CHECK(std::isfinite(bias));
}

bool IsSame(const Prompt& prompt, const v1::Prompt& message) {
  if (const auto* text = std::get_if<std::string>(&prompt)) {
    return message.has_text() && message.text() == *text;
  }
  if (const auto* chat = std::get_if<Chat>(&prompt)) {
    return message.has_chat() &&
           chat->messages.size() == static_cast<size_t>(message.chat().messages_size());
  }
  const auto& ids = std::get<TokenIds>(prompt);
  return message.has_ids() &&
         std::equal(ids.begin(), ids.end(), message.ids().ids().begin(), message.ids().ids().end());
}

absl::Status Convert(const v1::GenerateRequest& message) {
  const auto request = ToEngineRequest(message);
  if (!request.ok()) return request.status();
  CheckLists(*request, message);
  BEAMLINE_CHECK(IsSame(request->prompt, message.prompt()));
  BEAMLINE_CHECK(request->target_prefix.has_value() == message.has_target_prefix());
  BEAMLINE_CHECK(request->priority == message.priority());
  BEAMLINE_CHECK(request->limits.max_new_tokens.has_value() ==
                 message.limits().has_max_new_tokens());
  BEAMLINE_CHECK(std::holds_alternative<BeamOptions>(request->decoding) == message.has_beam());
  BEAMLINE_CHECK(std::holds_alternative<SamplingOptions>(request->decoding) ==
                 message.has_sampling());
  return absl::OkStatus();
}

absl::Status Convert(const v1::EncodeRequest& message) {
  const auto request = ToEngineRequest(message);
  if (!request.ok()) return request.status();
  BEAMLINE_CHECK(request->inputs.size() == static_cast<size_t>(message.inputs_size()));
  BEAMLINE_CHECK(message.has_dimensions() == request->dimensions.has_value());
  for (int i = 0; i < message.inputs_size(); ++i) {
    BEAMLINE_CHECK(IsSame(request->inputs[static_cast<size_t>(i)], message.inputs(i)));
  }
  return absl::OkStatus();
}

absl::Status Convert(const v1::ScoreRequest& message) {
  const auto request = ToEngineRequest(message);
  if (!request.ok()) return request.status();
  BEAMLINE_CHECK(request->continuations.size() ==
                 static_cast<size_t>(message.continuations_size()));
  BEAMLINE_CHECK(IsSame(request->prompt, message.prompt()));
  return absl::OkStatus();
}

// Of Classify and of the calls beside it.
template <typename Request>
absl::Status ConvertInputs(const Request& message, int num_inputs) {
  const auto request = ToEngineRequest(message);
  if (!request.ok()) return request.status();
  BEAMLINE_CHECK(request->inputs.size() == static_cast<size_t>(num_inputs));
  BEAMLINE_CHECK(request->priority == message.priority());
  return absl::OkStatus();
}

absl::Status Convert(const v1::LoadModelRequest& message) {
  const auto options = ToModelOptions(message);
  if (!options.ok()) return options.status();
  BEAMLINE_CHECK(options->name == message.name());
  BEAMLINE_CHECK(options->folder == (message.folder().empty() ? message.name() : message.folder()));
  BEAMLINE_CHECK(!message.has_version() || options->version == message.version());
  return absl::OkStatus();
}

// Of UnloadModel and RestartReplica.
template <typename Request>
absl::Status ConvertEnd(const Request& message) {
  BEAMLINE_RETURN_IF_ERROR(ToVersion(message).status());
  const auto grace = ToGrace(message, std::chrono::milliseconds(1));
  if (!grace.ok()) return grace.status();
  BEAMLINE_CHECK(grace->count() >= 0 && *grace <= std::chrono::hours(24));
  return absl::OkStatus();
}

// To a generator and to an encoder. Errors name inputs and parameters, which are no fields.
void CheckInfer(const inference::ModelInferRequest& message) {
  for (const ModelTask task : {ModelTask::kGenerate, ModelTask::kEncode}) {
    ModelInfo model;
    model.name = model.versioned_name = "model";
    model.task = task;
    const auto translation = TranslateInfer(message, model, std::nullopt);
    if (!translation.ok()) {
      CheckRefusal(translation.status(), "");
      continue;
    }
    const absl::Status status =
        std::visit([](const auto& request) { return ToEngineRequest(request).status(); },
                   translation->request);
    if (!status.ok()) CheckRefusal(InInferRequest(status), "");
  }
}

absl::Status ConvertAny(const Message& message) {
  if (const auto* generate = dynamic_cast<const v1::GenerateRequest*>(&message)) {
    return Convert(*generate);
  }
  if (const auto* encode = dynamic_cast<const v1::EncodeRequest*>(&message)) {
    return Convert(*encode);
  }
  if (const auto* score = dynamic_cast<const v1::ScoreRequest*>(&message)) return Convert(*score);
  if (const auto* classify = dynamic_cast<const v1::ClassifyRequest*>(&message)) {
    return ConvertInputs(*classify, classify->inputs_size());
  }
  if (const auto* rerank = dynamic_cast<const v1::RerankRequest*>(&message)) {
    return ConvertInputs(*rerank, rerank->documents_size());
  }
  if (const auto* tokens = dynamic_cast<const v1::ClassifyTokensRequest*>(&message)) {
    return ConvertInputs(*tokens, tokens->inputs_size());
  }
  if (const auto* masks = dynamic_cast<const v1::FillMaskRequest*>(&message)) {
    return ConvertInputs(*masks, masks->inputs_size());
  }
  if (const auto* load = dynamic_cast<const v1::LoadModelRequest*>(&message)) {
    return Convert(*load);
  }
  if (const auto* unload = dynamic_cast<const v1::UnloadModelRequest*>(&message)) {
    return ConvertEnd(*unload);
  }
  if (const auto* restart = dynamic_cast<const v1::RestartReplicaRequest*>(&message)) {
    return ConvertEnd(*restart);
  }
  if (const auto* infer = dynamic_cast<const inference::ModelInferRequest*>(&message)) {
    CheckInfer(*infer);
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace beamline

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned seed) {
  using namespace beamline;
  MessageMutator mutator(seed, {"gpt2", "bert"});
  const uint8_t type =
      size == 0 ? static_cast<uint8_t>('A' + mutator.Below(kMakers.size())) : data[0];
  const auto message = NewMessage(type);
  const bool parsed =
      size > 0 && message->ParsePartialFromArray(data + 1, static_cast<int>(size - 1));
  if (!parsed || mutator.Chance(0.1)) return LLVMFuzzerMutate(data, size, max_size);
  mutator.Mutate(*message);
  const std::string bytes = message->SerializePartialAsString();
  if (bytes.size() + 1 > max_size) return LLVMFuzzerMutate(data, size, max_size);
  data[0] = type;
  std::memcpy(data + 1, bytes.data(), bytes.size());
  return bytes.size() + 1;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace beamline;
  if (size == 0) return 0;
  google::protobuf::SetLogHandler(nullptr);  // it tells of each text that is not UTF-8
  const auto message = NewMessage(data[0]);
  const grpc::Slice slice(data + 1, size - 1);
  const grpc::ByteBuffer buffer(&slice, 1);
  const std::string id = FindText(buffer, *message->GetDescriptor(), "request_id");
  BEAMLINE_CHECK(IsValidUtf8(id));
  absl::Status status = ParseMessage(buffer, *message);
  if (status.ok()) {
    const auto* field = message->GetDescriptor()->FindFieldByName("request_id");
    if (field != nullptr) {
      BEAMLINE_CHECK(message->GetReflection()->GetString(*message, field) == id);
    }
    status = ConvertAny(*message);
  }
  if (!status.ok()) CheckNamesAField(status, *message);
  return 0;
}
