#include "client/client.h"

#include <algorithm>
#include <optional>
#include <thread>
#include <utility>

#include "client/async_attempts.h"
#include "client/channel.h"
#include "client/grpc_status.h"
#include "client/many_stream.h"
#include "client/retry.h"
#include "client/stubs.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "grpcpp/grpcpp.h"

namespace beamline {
namespace {

// Calls one unary method of a stub.
template <typename Stub, typename Request, typename Response>
absl::StatusOr<Response> Call(
    Stub& stub, grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
    const Request& request, const CallOptions& options, const RetryPolicy& retry) {
  Attempts attempts(retry, options.timeout);
  while (true) {
    grpc::ClientContext context;
    attempts.SetDeadline(context);
    Response response;
    const absl::Status status = ToStatus((stub.*method)(&context, request, &response));
    if (status.ok()) return response;
    if (!attempts.WaitAfter(status)) return status;
  }
}

// Collects the answers to requests that are all known in advance, in their order. Run takes a
// source and an OnAnswer and returns the final status. That status is the answer to the requests
// that the source did not hand out.
template <typename Request, typename Response, typename Run>
std::vector<absl::StatusOr<Response>> Collect(std::span<const Request> requests,
                                              const Client::OnAnswer<Response>& on_answer,
                                              const Run& run) {
  std::vector<std::optional<absl::StatusOr<Response>>> answers(requests.size());
  const Client::OnAnswer<Response> keep = [&](size_t place,
                                              const absl::StatusOr<Response>& answer) {
    if (on_answer) on_answer(place, answer);
    answers[place] = answer;
  };
  size_t num_given = 0;
  const Client::Source<Request> source = [&](absl::StatusOr<Request>& request) {
    if (num_given == requests.size()) return Client::Next::kEnd;
    request = requests[num_given++];
    return Client::Next::kRequest;
  };
  const absl::Status end = requests.empty() ? absl::OkStatus() : run(source, keep);
  for (size_t place = num_given; place < requests.size(); ++place) keep(place, end);
  std::vector<absl::StatusOr<Response>> all;
  for (auto& answer : answers) all.push_back(*std::move(answer));
  return all;
}

std::shared_ptr<grpc::Channel> MakeChannel(const ClientOptions& options) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(options.max_message_bytes);
  if (!options.service_config.empty()) arguments.SetServiceConfigJSON(options.service_config);
  // Reconnect quickly, so that retried calls reach a restarted server.
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 200);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 5000);
  return OpenChannel(options.address, options.tls, options.token, std::move(arguments));
}

template <typename Request, typename Envelope, typename Response>
absl::Status RunMany(v1::Inference::Stub& stub,
                     std::unique_ptr<grpc::ClientReaderWriter<Request, Envelope>> (
                         v1::Inference::Stub::*open)(grpc::ClientContext*),
                     const RetryPolicy& retry, const Client::Source<Request>& source,
                     const Client::OnAnswer<Response>& on_answer, const ManyLimits& limits) {
  return ManyStream<Request, Response, Envelope>(
             [&](grpc::ClientContext* context) { return (stub.*open)(context); }, retry, source,
             on_answer, limits)
      .Run();
}

}  // namespace

Client::Client(const ClientOptions& options)
    : stubs_(std::make_shared<Stubs>(MakeChannel(options))),
      retry_(options.retry),
      async_calls_(std::make_shared<AsyncCalls>()) {}

Client::~Client() {
  async_calls_->CancelAll();
  if (!CallerScope::IsInside()) {
    async_calls_->WaitUntilNone();
    return;
  }
  // This may be one of the threads that the connection's destruction waits for.
  std::thread([stubs = std::move(stubs_), calls = async_calls_] {
    calls->WaitUntilNone();
  }).detach();
}

absl::StatusOr<v1::GenerateResponse> Client::Generate(const v1::GenerateRequest& request,
                                                      const CallOptions& options) {
  return Call(stubs_->inference, &v1::Inference::Stub::Generate, request, options, retry_);
}

absl::StatusOr<v1::StreamEnd> Client::GenerateStream(const v1::GenerateRequest& request,
                                                     const OnMessage& on_message,
                                                     const CallOptions& options) {
  Attempts attempts(retry_, options.timeout);
  while (true) {
    grpc::ClientContext context;
    attempts.SetDeadline(context);
    const auto reader = stubs_->inference.GenerateStream(&context, request);
    v1::GenerateStreamResponse message;
    v1::StreamEnd end;
    bool has_begun = false;
    bool has_end = false;
    bool cancelled = false;
    while (reader->Read(&message)) {
      has_begun = true;
      if (!cancelled && !on_message(message)) {
        cancelled = true;
        context.TryCancel();
      }
      if (message.has_end()) {
        has_end = true;
        end = std::move(*message.mutable_end());
      }
    }
    const absl::Status status = ToStatus(reader->Finish());
    if (cancelled) return absl::CancelledError("cancelled by the caller");
    if (status.ok() && has_end) return end;
    if (status.ok()) return absl::DataLossError("the stream ended without its last message");
    if (has_begun || !attempts.WaitAfter(status)) return status;
  }
}

std::vector<absl::StatusOr<v1::GenerateResponse>> Client::GenerateMany(
    std::span<const v1::GenerateRequest> requests, const CallOptions& options,
    const OnAnswer<v1::GenerateResponse>& on_answer) {
  return Collect<v1::GenerateRequest, v1::GenerateResponse>(
      requests, on_answer, [&](const auto& source, const auto& keep) {
        return RunMany(stubs_->inference, &v1::Inference::Stub::GenerateMany, retry_, source, keep,
                       {.whole = options.timeout});
      });
}

absl::Status Client::GenerateMany(const Source<v1::GenerateRequest>& source,
                                  const OnAnswer<v1::GenerateResponse>& on_answer,
                                  const CallOptions& options) {
  return RunMany(stubs_->inference, &v1::Inference::Stub::GenerateMany, retry_, source, on_answer,
                 {.stall = options.timeout});
}

std::vector<absl::StatusOr<v1::EncodeResponse>> Client::EncodeMany(
    std::span<const v1::EncodeRequest> requests, const CallOptions& options,
    const OnAnswer<v1::EncodeResponse>& on_answer) {
  return Collect<v1::EncodeRequest, v1::EncodeResponse>(
      requests, on_answer, [&](const auto& source, const auto& keep) {
        return RunMany(stubs_->inference, &v1::Inference::Stub::EncodeMany, retry_, source, keep,
                       {.whole = options.timeout});
      });
}

absl::Status Client::EncodeMany(const Source<v1::EncodeRequest>& source,
                                const OnAnswer<v1::EncodeResponse>& on_answer,
                                const CallOptions& options) {
  return RunMany(stubs_->inference, &v1::Inference::Stub::EncodeMany, retry_, source, on_answer,
                 {.stall = options.timeout});
}

absl::StatusOr<v1::EncodeResponse> Client::Encode(const v1::EncodeRequest& request,
                                                  const CallOptions& options) {
  return Call(stubs_->inference, &v1::Inference::Stub::Encode, request, options, retry_);
}

absl::StatusOr<v1::ClassifyResponse> Client::Classify(const v1::ClassifyRequest& request,
                                                      const CallOptions& options) {
  return Call(stubs_->inference, &v1::Inference::Stub::Classify, request, options, retry_);
}

absl::StatusOr<v1::RerankResponse> Client::Rerank(const v1::RerankRequest& request,
                                                  const CallOptions& options) {
  return Call(stubs_->inference, &v1::Inference::Stub::Rerank, request, options, retry_);
}

absl::StatusOr<v1::ClassifyTokensResponse> Client::ClassifyTokens(
    const v1::ClassifyTokensRequest& request, const CallOptions& options) {
  return Call(stubs_->inference, &v1::Inference::Stub::ClassifyTokens, request, options, retry_);
}

absl::StatusOr<v1::FillMaskResponse> Client::FillMask(const v1::FillMaskRequest& request,
                                                      const CallOptions& options) {
  return Call(stubs_->inference, &v1::Inference::Stub::FillMask, request, options, retry_);
}

absl::StatusOr<v1::ScoreResponse> Client::Score(const v1::ScoreRequest& request,
                                                const CallOptions& options) {
  return Call(stubs_->inference, &v1::Inference::Stub::Score, request, options, retry_);
}

absl::StatusOr<v1::TokenizeResponse> Client::Tokenize(const v1::TokenizeRequest& request,
                                                      const CallOptions& options) {
  return Call(stubs_->inference, &v1::Inference::Stub::Tokenize, request, options, retry_);
}

absl::StatusOr<v1::DetokenizeResponse> Client::Detokenize(const v1::DetokenizeRequest& request,
                                                          const CallOptions& options) {
  return Call(stubs_->inference, &v1::Inference::Stub::Detokenize, request, options, retry_);
}

absl::StatusOr<v1::ListModelsResponse> Client::ListModels(const CallOptions& options) {
  return Call(stubs_->models, &v1::Models::Stub::ListModels, v1::ListModelsRequest(), options,
              retry_);
}

absl::StatusOr<v1::Model> Client::GetModel(const std::string& name, const CallOptions& options) {
  v1::GetModelRequest request;
  request.set_name(name);
  return Call(stubs_->models, &v1::Models::Stub::GetModel, request, options, retry_);
}

absl::StatusOr<v1::Model> Client::LoadModel(const v1::LoadModelRequest& request,
                                            const CallOptions& options) {
  return Call(stubs_->models, &v1::Models::Stub::LoadModel, request, options, retry_);
}

absl::StatusOr<v1::UnloadModelResponse> Client::UnloadModel(const v1::UnloadModelRequest& request,
                                                            const CallOptions& options) {
  return Call(stubs_->models, &v1::Models::Stub::UnloadModel, request, options, retry_);
}

absl::StatusOr<v1::Model> Client::RestartReplica(const v1::RestartReplicaRequest& request,
                                                 const CallOptions& options) {
  return Call(stubs_->models, &v1::Models::Stub::RestartReplica, request, options, retry_);
}

absl::StatusOr<bool> Client::Health(const std::string& model, const CallOptions& options) {
  grpc::health::v1::HealthCheckRequest request;
  request.set_service(model);
  const auto response =
      Call(stubs_->health, &grpc::health::v1::Health::Stub::Check, request, options, retry_);
  if (!response.ok()) return response.status();
  return response->status() == grpc::health::v1::HealthCheckResponse::SERVING;
}

absl::Status Client::WaitUntilServing(const std::string& model, const CallOptions& options) {
  using Response = grpc::health::v1::HealthCheckResponse;
  const Attempts attempts(retry_, options.timeout);  // only for its deadline
  grpc::health::v1::HealthCheckRequest request;
  request.set_service(model);
  std::string last = "no server answers";
  while (true) {
    grpc::ClientContext context;
    attempts.SetDeadline(context);
    context.set_wait_for_ready(true);
    const auto reader = stubs_->health.Watch(&context, request);
    Response response;
    while (reader->Read(&response)) {
      if (response.status() == Response::SERVING) {
        context.TryCancel();
        reader->Finish();  // its status is that of the cancellation
        return absl::OkStatus();
      }
      last = response.status() == Response::SERVICE_UNKNOWN ? "there is none of this name"
                                                            : "it does not answer requests";
    }
    const absl::Status status = ToStatus(reader->Finish());
    if (absl::IsDeadlineExceeded(status)) {
      return absl::DeadlineExceededError(
          "waited for " + (model.empty() ? "the server" : "model '" + model + "'") + ": " + last);
    }
    if (absl::IsUnimplemented(status) || absl::IsPermissionDenied(status) ||
        absl::IsUnauthenticated(status)) {
      return status;
    }
    // A stopping server ends the call in one way or another; a proxy may do so at once each time.
    last = "the server has gone";
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
}

std::string InvalidField(const absl::Status& status) {
  const google::rpc::Status details = GetDetails(status);
  for (const auto& detail : details.details()) {
    google::rpc::BadRequest bad_request;
    if (detail.UnpackTo(&bad_request) && bad_request.field_violations_size() > 0) {
      return bad_request.field_violations(0).field();
    }
  }
  return "";
}

}  // namespace beamline
