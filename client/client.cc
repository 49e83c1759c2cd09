#include "client/client.h"

#include <optional>
#include <utility>

#include "beamline/v1/inference.grpc.pb.h"
#include "beamline/v1/models.grpc.pb.h"
#include "client/grpc_status.h"
#include "client/many_stream.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "grpcpp/grpcpp.h"

namespace beamline {
namespace {

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

// Answers to requests that are all there, in their order. Run: takes a source and an OnAnswer, and
// returns how the stream ended.
template <typename Response, typename Request, typename Run>
std::vector<absl::StatusOr<Response>> CollectAnswers(std::span<const Request> requests,
                                                     const Client::OnAnswer<Response>& on_answer,
                                                     const Run& run) {
  std::vector<std::optional<absl::StatusOr<Response>>> answers(requests.size());
  size_t num_given = 0;
  const Client::Source<Request> source = [&](absl::StatusOr<Request>& request) {
    if (num_given == requests.size()) return Client::Next::kEnd;
    request = requests[num_given++];
    return Client::Next::kRequest;
  };
  const Client::OnAnswer<Response> keep = [&](size_t place,
                                              const absl::StatusOr<Response>& answer) {
    answers[place] = answer;
    if (on_answer) on_answer(place, answer);
  };
  const absl::Status end = run(source, keep);
  std::vector<absl::StatusOr<Response>> all;
  for (size_t place = 0; place < requests.size(); ++place) {
    if (!answers[place].has_value()) keep(place, end);  // the stream ended before its turn
    all.push_back(*std::move(answers[place]));
  }
  return all;
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

  absl::Status GenerateMany(const Source<v1::GenerateRequest>& source,
                            const OnAnswer<v1::GenerateResponse>& on_answer,
                            const ManyLimits& limits) {
    return ManyStream<v1::GenerateRequest, v1::GenerateResponse, v1::GenerateManyResponse>(
               [this](grpc::ClientContext* context) { return inference.GenerateMany(context); },
               source, on_answer, limits)
        .Run();
  }
  absl::Status EncodeMany(const Source<v1::EncodeRequest>& source,
                          const OnAnswer<v1::EncodeResponse>& on_answer, const ManyLimits& limits) {
    return ManyStream<v1::EncodeRequest, v1::EncodeResponse, v1::EncodeManyResponse>(
               [this](grpc::ClientContext* context) { return inference.EncodeMany(context); },
               source, on_answer, limits)
        .Run();
  }

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
  return CollectAnswers<v1::GenerateResponse>(
      requests, on_answer, [&](const auto& source, const auto& keep) {
        return stubs_->GenerateMany(source, keep, {.whole = options.timeout});
      });
}

absl::Status Client::GenerateMany(const Source<v1::GenerateRequest>& source,
                                  const OnAnswer<v1::GenerateResponse>& on_answer,
                                  const CallOptions& options) {
  return stubs_->GenerateMany(source, on_answer, {.stall = options.timeout});
}

std::vector<absl::StatusOr<v1::EncodeResponse>> Client::EncodeMany(
    std::span<const v1::EncodeRequest> requests, const CallOptions& options,
    const OnAnswer<v1::EncodeResponse>& on_answer) {
  return CollectAnswers<v1::EncodeResponse>(
      requests, on_answer, [&](const auto& source, const auto& keep) {
        return stubs_->EncodeMany(source, keep, {.whole = options.timeout});
      });
}

absl::Status Client::EncodeMany(const Source<v1::EncodeRequest>& source,
                                const OnAnswer<v1::EncodeResponse>& on_answer,
                                const CallOptions& options) {
  return stubs_->EncodeMany(source, on_answer, {.stall = options.timeout});
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

absl::StatusOr<v1::Model> Client::LoadModel(const v1::LoadModelRequest& request,
                                            const CallOptions& options) {
  return Call(stubs_->models, &v1::Models::Stub::LoadModel, request, options);
}

absl::StatusOr<v1::UnloadModelResponse> Client::UnloadModel(const v1::UnloadModelRequest& request,
                                                            const CallOptions& options) {
  return Call(stubs_->models, &v1::Models::Stub::UnloadModel, request, options);
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
