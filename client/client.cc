#include "client/client.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "beamline/v1/inference.grpc.pb.h"
#include "beamline/v1/models.grpc.pb.h"
#include "client/grpc_status.h"
#include "client/many_stream.h"
#include "client/retry.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "grpc/health/v1/health.grpc.pb.h"
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

// The answers to requests that are all there, in their order.
template <typename Request, typename Response>
class Answers {
 public:
  Answers(std::span<const Request> requests, const Client::OnAnswer<Response>& on_answer)
      : requests_(requests), on_answer_(on_answer), answers_(requests.size()) {
    for (size_t place = 0; place < requests.size(); ++place) open_.push_back(place);
  }

  // Run: takes a source, an OnAnswer and the time that is left, and returns how the stream ended.
  // Requests whose error may pass are made again together, over another stream.
  template <typename Run>
  std::vector<absl::StatusOr<Response>> Collect(const RetryPolicy& retry,
                                                const CallOptions& options, const Run& run) {
    Attempts attempts(retry, options.timeout);
    for (int num_failures = 1; !open_.empty(); ++num_failures) {
      size_t num_given = 0;
      std::vector<size_t> failed;
      absl::Status slowest;  // of the errors that may pass, the one that asks for the longest wait
      std::chrono::milliseconds longest{-1};
      const auto keep = [&](size_t place, const absl::StatusOr<Response>& answer) {
        const auto delay =
            answer.ok() ? std::nullopt : RetryDelay(retry, answer.status(), num_failures, 0);
        if (!delay.has_value()) return Finish(place, answer);
        answers_[place] = answer;
        failed.push_back(place);
        if (*delay > longest) slowest = answer.status();
        longest = std::max(longest, *delay);
      };
      const Client::Source<Request> source = [&](absl::StatusOr<Request>& request) {
        if (num_given == open_.size()) return Client::Next::kEnd;
        request = requests_[open_[num_given++]];
        return Client::Next::kRequest;
      };
      std::vector<bool> is_answered(open_.size());
      const absl::Status end = run(
          source,
          [&](size_t place, const absl::StatusOr<Response>& answer) {
            is_answered[place] = true;
            keep(open_[place], answer);
          },
          attempts.Remaining());
      for (size_t place = 0; place < open_.size(); ++place) {
        if (!is_answered[place]) keep(open_[place], end);  // the stream ended before its turn
      }
      if (!failed.empty() && !attempts.WaitAfter(slowest)) {
        for (const size_t place : failed) Finish(place, *answers_[place]);
        break;
      }
      open_ = std::move(failed);
    }
    std::vector<absl::StatusOr<Response>> all;
    for (auto& answer : answers_) all.push_back(*std::move(answer));
    return all;
  }

 private:
  void Finish(size_t place, const absl::StatusOr<Response>& answer) {
    if (on_answer_) on_answer_(place, answer);
    answers_[place] = answer;
  }

  const std::span<const Request> requests_;
  const Client::OnAnswer<Response>& on_answer_;
  std::vector<std::optional<absl::StatusOr<Response>>> answers_;
  std::vector<size_t> open_;  // places of the requests that are to be made
};

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
    : stubs_(std::make_unique<Stubs>(MakeChannel(options))), retry_(options.retry) {}
Client::~Client() = default;

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
  return Answers<v1::GenerateRequest, v1::GenerateResponse>(requests, on_answer)
      .Collect(retry_, options, [&](const auto& source, const auto& keep, auto left) {
        return stubs_->GenerateMany(source, keep, {.whole = left});
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
  return Answers<v1::EncodeRequest, v1::EncodeResponse>(requests, on_answer)
      .Collect(retry_, options, [&](const auto& source, const auto& keep, auto left) {
        return stubs_->EncodeMany(source, keep, {.whole = left});
      });
}

absl::Status Client::EncodeMany(const Source<v1::EncodeRequest>& source,
                                const OnAnswer<v1::EncodeResponse>& on_answer,
                                const CallOptions& options) {
  return stubs_->EncodeMany(source, on_answer, {.stall = options.timeout});
}

absl::StatusOr<v1::EncodeResponse> Client::Encode(const v1::EncodeRequest& request,
                                                  const CallOptions& options) {
  return Call(stubs_->inference, &v1::Inference::Stub::Encode, request, options, retry_);
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

absl::StatusOr<bool> Client::Health(const std::string& model, const CallOptions& options) {
  grpc::health::v1::HealthCheckRequest request;
  request.set_service(model);
  const auto response =
      Call(stubs_->health, &grpc::health::v1::Health::Stub::Check, request, options, retry_);
  if (!response.ok()) return response.status();
  return response->status() == grpc::health::v1::HealthCheckResponse::SERVING;
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
