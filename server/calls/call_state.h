// State that every call has: its slot among the running calls, and its record for metrics, log and
// spans.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/field_error.h"
#include "base/worker_pool.h"
#include "engine/api/engine.h"
#include "engine/api/request_limits.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"
#include "google/rpc/status.pb.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/status.h"
#include "server/calls/admission.h"
#include "server/calls/answer_room.h"
#include "server/calls/caller.h"
#include "server/calls/model_directory.h"
#include "server/calls/unread_answers.h"
#include "server/security/gate.h"
#include "server/security/token_quotas.h"
#include "server/telemetry/log/request_log.h"
#include "server/telemetry/metrics/metrics.h"
#include "server/telemetry/tracing/span_exporter.h"

namespace beamline {

class MessageBudget;

struct StreamLimits {
  // For a stream of requests (GenerateMany, EncodeMany): requests without a written answer. At this
  // number the server stops reading.
  int32_t max_outstanding = 1024;
  int32_t max_send_bytes = 64 << 20;  // of one message, for every call
  // Highest priority of a request. Larger ones are clamped to it.
  int32_t max_priority = static_cast<int32_t>(LimitOf("priority").value->max);
};

// The objects that calls use. Outlives them.
struct ServiceContext {
  Engine& engine;
  const ModelDirectory& models;
  Admission& admission;
  Metrics& metrics;
  WorkerPool& writers;       // convert and write answers, off the engine's threads
  WorkerPool& text_workers;  // tokenize large texts, off gRPC's threads
  StreamLimits stream_limits;
  const Gate* gate = nullptr;  // null: no authentication
  RequestLogOptions request_log;
  SpanExporter* spans = nullptr;    // null: no spans are sent
  UnreadAnswers* unread = nullptr;  // limits unread unary answers; null: no limit
  // For calls with one request, until it is complete; never null.
  MessageBudget* messages = nullptr;
  AnswerRoom* room = nullptr;        // for streams of requests; null: no limit
  WorkerPool* huge_texts = nullptr;  // one thread for texts of megabytes; null: text_workers
  TokenQuotas* quotas = nullptr;     // null: no quotas
};

// Opens the quota charge for this caller's tokens. Null when there are no quotas.
std::shared_ptr<TokenCharge> OpenCharge(const ServiceContext& services, const Caller& caller);

// Authenticates and authorizes a call. Returns the identity, empty when the server requires none.
// Counts refusals.
absl::StatusOr<std::string> Enter(ServiceContext& services, const Shown& shown, Right right);
// The same. Logs a refusal when all requests are logged.
absl::StatusOr<std::string> Enter(ServiceContext& services, Rpc rpc,
                                  const grpc::CallbackServerContext& context, Right right);
// Checks the caller again, for each further request of a gRPC stream: its token or permissions may
// have been revoked. Counts refusals.
absl::Status EnterAgain(ServiceContext& services, const Caller& caller, Right right);
// Logs a call that the gate refused before any of its request was read.
void LogRefusal(const ServiceContext& services, Rpc rpc, const Caller& caller,
                const absl::Status& refusal);

class CallState {
 public:
  CallState(ServiceContext& services, Rpc rpc) : services_(services), start_(Clock::now()) {
    record_.rpc = rpc;
  }

  ServiceContext& services() { return services_; }
  // Call before any work is done. Counts refusals. `num_places`: slots to take, where other calls
  // end together with this one.
  absl::Status Admit(int32_t num_places = 1);
  // Frees the call's slots early, when its end is certain. Fail does it too.
  void GivePlaces();
  // The same, before the answer is sent, so that the client's next call finds a slot. Returns false
  // and keeps the slots until Done if clients have more unread bytes than the limit.
  bool GivePlacesUnlessUnread();
  // The same for an answer of `answer_bytes` that Hold has not counted yet. Calls Hold.
  bool GivePlacesBefore(int64_t answer_bytes);
  // Admit for a call with one request. INVALID_ARGUMENT, without a slot, if no request has come.
  // The client has gone then (the call counts as cancelled), or sent none.
  absl::Status Admit(const grpc::ByteBuffer& request);
  // Returns the engine's status for a request, and counts refusals. Reports NOT_FOUND as an unknown
  // `model`: the model was unloaded after it was resolved.
  template <typename Handle>
  absl::StatusOr<Handle> CountRefusal(absl::StatusOr<Handle> accepted) {
    if (accepted.ok()) return accepted;
    RecordRefusal(accepted.status());
    if (!absl::IsNotFound(accepted.status())) return accepted;
    return FieldError({.field = "model", .text = std::string(accepted.status().message())});
  }
  // Parses the client's message. Records its model and request_id, as far as they can be read even
  // when parsing fails.
  absl::Status Parse(const grpc::ByteBuffer& buffer, google::protobuf::Message& message);
  // The same, but records the names only when parsing fails. On success the code that resolves the
  // model records them (methods.h).
  absl::Status ParseOnly(const grpc::ByteBuffer& buffer, google::protobuf::Message& message);
  // Records the model and the request_id of a parsed message.
  void Describe(const google::protobuf::Message& message);
  // For protocols in which the request determines the RPC.
  void SetRpc(Rpc rpc) { record_.rpc = rpc; }
  void SetRequestId(const std::string& request_id) { record_.request_id = request_id; }
  void SetModel(const std::string& model) { record_.model = model; }
  const std::string& client() const { return record_.client; }
  const std::string& request_id() const { return record_.request_id; }
  const std::string& model() const { return record_.model; }  // empty: not known yet
  // Records the error as the call's result, and returns it as a google.rpc.Status.
  google::rpc::Status Fail(const absl::Status& status);
  // The same as a grpc::Status.
  grpc::Status FailCall(const absl::Status& status);
  // The client has gone, so no answer reaches it. Any thread, before Done.
  void SetUnsent() { unsent_ = true; }
  bool is_unsent() const { return unsent_; }
  // The call failed with RESOURCE_EXHAUSTED.
  bool is_refused() const { return record_.code == absl::StatusCode::kResourceExhausted; }
  void SetAnswer(const Timing& timing, const Usage& usage) {
    record_.timing = timing;
    record_.usage = usage;
  }
  void SetRequestBytes(size_t bytes) { record_.request_bytes = static_cast<int64_t>(bytes); }
  // Counts `bytes` of the call's `what` ("request" or "answer") until Done. Call before they are
  // allocated. RESOURCE_EXHAUSTED when calls hold too many bytes together.
  absl::Status Hold(std::string_view what, int64_t bytes);
  // For one request of a stream: its answer must have room in `room` before it is computed.
  // `given`: a reservation already made, or null.
  void UseRoom(AnswerRoom& room, AnswerRoom::PlacePtr given) {
    room_ = &room;
    place_ = std::move(given);
  }
  // Reserves room for an answer of at most `bytes`. Null when it needs none. CANCELLED when there
  // is no room: the request is to be taken again when there is room for wanted_bytes().
  absl::StatusOr<AnswerRoom::PlacePtr> TakeRoom(int64_t bytes);
  int64_t wanted_bytes() const { return wanted_bytes_; }  // 0: TakeRoom was not refused
  // Call before all held bytes are sent as the answer. Cancels the call if its client takes too
  // long to read them.
  void EndIfUnread();
  // Counts `bytes` as sent.
  void AddAnswerBytes(int64_t bytes) { record_.answer_bytes += bytes; }
  void SetCaller(const Caller& caller);
  // The same, but moves `peer` and `trace` out of `caller`.
  void TakeCaller(Caller& caller);
  // Ends the call: frees its slots and bytes, and records it in metrics, log and spans.
  void Done();

 private:
  void DescribeBy(const google::protobuf::Descriptor& type,
                  absl::FunctionRef<std::string(const google::protobuf::FieldDescriptor&)> text);
  void RecordRefusal(const absl::Status& refusal);
  void RecordFailure(const absl::Status& status);

  ServiceContext& services_;
  const Clock::time_point start_;
  CallRecord record_;
  std::optional<Admission::Permit> permit_;
  bool has_request_ = true;
  int64_t held_bytes_ = 0;
  bool is_watched_ = false;
  AnswerRoom* room_ = nullptr;
  AnswerRoom::PlacePtr place_;
  int64_t wanted_bytes_ = 0;
  const grpc::CallbackServerContext* context_ = nullptr;  // null: another protocol, or not set
  std::atomic<bool> unsent_{false};
};

}  // namespace beamline
