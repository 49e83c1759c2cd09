#include "client/client.h"

#include <algorithm>
#include <charconv>
#include <thread>
#include <utility>

#include "absl/strings/cord.h"
#include "beamline/v1/inference.grpc.pb.h"
#include "beamline/v1/models.grpc.pb.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "grpcpp/grpcpp.h"

namespace beamline {
namespace {

constexpr char kDetailsPayload[] = "type.googleapis.com/google.rpc.Status";

absl::Status ToStatus(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  absl::Status result(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
  if (!status.error_details().empty()) {
    result.SetPayload(kDetailsPayload, absl::Cord(status.error_details()));
  }
  return result;
}

// A longer timeout is none; the clock of deadlines ends in the year 2262.
constexpr std::chrono::milliseconds kLongestTimeout = std::chrono::years(100);

void SetDeadline(const CallOptions& options, grpc::ClientContext& context) {
  if (options.timeout.count() > 0 && options.timeout <= kLongestTimeout) {
    context.set_deadline(std::chrono::system_clock::now() + options.timeout);
  }
}

// Calls one unary method of a stub.
template <typename Stub, typename Request, typename Response>
absl::StatusOr<Response> Call(Stub& stub,
                              grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&,
                                                           Response*),
                              const Request& request, const CallOptions& options) {
  grpc::ClientContext context;
  SetDeadline(options, context);
  Response response;
  const grpc::Status status = (stub.*method)(&context, request, &response);
  if (!status.ok()) return ToStatus(status);
  return response;
}

// The place that an id of ours names; `size` when it names none.
size_t PlaceOf(const std::string& id, size_t size) {
  size_t place = size;
  std::from_chars(id.data(), id.data() + id.size(), place);
  return std::min(place, size);
}

absl::Status ToStatus(const google::rpc::Status& error) {
  absl::Status status(static_cast<absl::StatusCode>(error.code()), error.message());
  status.SetPayload(kDetailsPayload, absl::Cord(error.SerializeAsString()));
  return status;
}

// Sends every request while it reads the answers: a server that waits for its answers to be read
// takes no more requests.
template <typename Response, typename Request, typename Envelope>
std::vector<absl::StatusOr<Response>> CallMany(grpc::ClientReaderWriter<Request, Envelope>& stream,
                                               std::span<const Request> requests,
                                               const Client::OnAnswer<Response>& on_answer) {
  const absl::Status unanswered = absl::UnknownError("unanswered");
  std::vector<absl::StatusOr<Response>> answers(requests.size(), unanswered);
  std::vector<bool> answered(requests.size(), false);
  std::thread writer([&stream, requests] {
    for (size_t place = 0; place < requests.size(); ++place) {
      Request request = requests[place];
      request.set_request_id(std::to_string(place));
      if (!stream.Write(request)) return;  // Finish knows why
    }
    stream.WritesDone();
  });
  for (Envelope envelope; stream.Read(&envelope);) {
    const size_t place = PlaceOf(envelope.request_id(), requests.size());
    if (place == requests.size()) continue;
    if (envelope.has_response()) {
      envelope.mutable_response()->set_request_id(requests[place].request_id());
      answers[place] = std::move(*envelope.mutable_response());
    } else {
      answers[place] = ToStatus(envelope.error());
    }
    answered[place] = true;
    if (on_answer) on_answer(place, answers[place]);
  }
  writer.join();
  const grpc::Status end = stream.Finish();
  for (size_t place = 0; place < requests.size(); ++place) {
    if (answered[place]) continue;
    answers[place] =
        end.ok() ? absl::DataLossError("the stream ended without this answer") : ToStatus(end);
    if (on_answer) on_answer(place, answers[place]);
  }
  return answers;
}

std::shared_ptr<grpc::Channel> MakeChannel(const ClientOptions& options) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(options.max_message_bytes);
  return grpc::CreateCustomChannel(options.address, grpc::InsecureChannelCredentials(), arguments);
}

}  // namespace

struct Client::Stubs {
  explicit Stubs(const std::shared_ptr<grpc::Channel>& channel)
      : inference(channel), models(channel), health(channel) {}
  v1::Inference::Stub inference;
  v1::Models::Stub models;
  grpc::health::v1::Health::Stub health;
};

Client::Client(const ClientOptions& options)
    : stubs_(std::make_unique<Stubs>(MakeChannel(options))) {}
Client::~Client() = default;

absl::StatusOr<v1::GenerateResponse> Client::Generate(const v1::GenerateRequest& request,
                                                      const CallOptions& options) {
  return Call(stubs_->inference, &v1::Inference::Stub::Generate, request, options);
}

absl::StatusOr<v1::StreamEnd> Client::GenerateStream(const v1::GenerateRequest& request,
                                                     const OnMessage& on_message,
                                                     const CallOptions& options) {
  grpc::ClientContext context;
  SetDeadline(options, context);
  const auto reader = stubs_->inference.GenerateStream(&context, request);
  v1::GenerateStreamResponse message;
  v1::StreamEnd end;
  bool has_end = false;
  bool cancelled = false;
  while (reader->Read(&message)) {
    if (!cancelled && !on_message(message)) {
      cancelled = true;
      context.TryCancel();
    }
    if (message.has_end()) {
      has_end = true;
      end = std::move(*message.mutable_end());
    }
  }
  const grpc::Status status = reader->Finish();
  if (cancelled) return absl::CancelledError("cancelled by the caller");
  if (!status.ok()) return ToStatus(status);
  if (!has_end) return absl::DataLossError("the stream ended without its last message");
  return end;
}

std::vector<absl::StatusOr<v1::GenerateResponse>> Client::GenerateMany(
    std::span<const v1::GenerateRequest> requests, const CallOptions& options,
    const OnAnswer<v1::GenerateResponse>& on_answer) {
  grpc::ClientContext context;
  SetDeadline(options, context);
  const auto stream = stubs_->inference.GenerateMany(&context);
  return CallMany<v1::GenerateResponse>(*stream, requests, on_answer);
}

std::vector<absl::StatusOr<v1::EncodeResponse>> Client::EncodeMany(
    std::span<const v1::EncodeRequest> requests, const CallOptions& options,
    const OnAnswer<v1::EncodeResponse>& on_answer) {
  grpc::ClientContext context;
  SetDeadline(options, context);
  const auto stream = stubs_->inference.EncodeMany(&context);
  return CallMany<v1::EncodeResponse>(*stream, requests, on_answer);
}

absl::StatusOr<v1::EncodeResponse> Client::Encode(const v1::EncodeRequest& request,
                                                  const CallOptions& options) {
  return Call(stubs_->inference, &v1::Inference::Stub::Encode, request, options);
}

absl::StatusOr<v1::ScoreResponse> Client::Score(const v1::ScoreRequest& request,
                                                const CallOptions& options) {
  return Call(stubs_->inference, &v1::Inference::Stub::Score, request, options);
}

absl::StatusOr<v1::TokenizeResponse> Client::Tokenize(const v1::TokenizeRequest& request,
                                                      const CallOptions& options) {
  return Call(stubs_->inference, &v1::Inference::Stub::Tokenize, request, options);
}

absl::StatusOr<v1::DetokenizeResponse> Client::Detokenize(const v1::DetokenizeRequest& request,
                                                          const CallOptions& options) {
  return Call(stubs_->inference, &v1::Inference::Stub::Detokenize, request, options);
}

absl::StatusOr<v1::ListModelsResponse> Client::ListModels(const CallOptions& options) {
  return Call(stubs_->models, &v1::Models::Stub::ListModels, v1::ListModelsRequest(), options);
}

absl::StatusOr<v1::Model> Client::GetModel(const std::string& name, const CallOptions& options) {
  v1::GetModelRequest request;
  request.set_name(name);
  return Call(stubs_->models, &v1::Models::Stub::GetModel, request, options);
}

absl::StatusOr<bool> Client::Health(const std::string& model, const CallOptions& options) {
  grpc::health::v1::HealthCheckRequest request;
  request.set_service(model);
  const auto response =
      Call(stubs_->health, &grpc::health::v1::Health::Stub::Check, request, options);
  if (!response.ok()) return response.status();
  return response->status() == grpc::health::v1::HealthCheckResponse::SERVING;
}

std::string InvalidField(const absl::Status& status) {
  const auto payload = status.GetPayload(kDetailsPayload);
  google::rpc::Status details;
  if (!payload.has_value() || !details.ParseFromString(std::string(*payload))) return "";
  for (const auto& detail : details.details()) {
    google::rpc::BadRequest bad_request;
    if (detail.UnpackTo(&bad_request) && bad_request.field_violations_size() > 0) {
      return bad_request.field_violations(0).field();
    }
  }
  return "";
}

}  // namespace beamline
