// What every call has in common: its place among the running ones, and its entry in the metrics and
// the log.
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
#include "server/admission.h"
#include "server/calls/answer_room.h"
#include "server/calls/caller.h"
#include "server/calls/unread_answers.h"
#include "server/metrics/metrics.h"
#include "server/model_directory.h"
#include "server/request_log.h"
#include "server/security/gate.h"
#include "server/security/token_quotas.h"
#include "server/tracing/span_exporter.h"

namespace beamline {

class MessageBudget;

struct StreamLimits {
  // Of a stream of requests (GenerateMany, EncodeMany) without a written answer; then reading
  // stops.
  int32_t max_outstanding = 1024;
  int32_t max_send_bytes = 64 << 20;  // of every call, in one message
  // Of every request of those that may be asked for, what it gets at most.
  int32_t max_priority = static_cast<int32_t>(LimitOf("priority").value->max);
};

// What calls work with; outlives them.
struct ServiceContext {
  Engine& engine;
  const ModelDirectory& models;
  Admission& admission;
  Metrics& metrics;
  WorkerPool& writers;       // answers are converted and written here, off the engine's threads
  WorkerPool& text_workers;  // tokenizes large texts, off gRPC's threads
  StreamLimits stream_limits;
  const Gate* gate = nullptr;  // null: everybody may call, and nobody is known
  RequestLogOptions request_log;
  SpanExporter* spans = nullptr;      // null: none are sent
  UnreadAnswers* unread = nullptr;    // of unary calls; null: there is no limit
  MessageBudget* messages = nullptr;  // of calls with one request, before it is whole; never null
  AnswerRoom* room = nullptr;         // of streams of requests; null: there is no limit
  WorkerPool* huge_texts = nullptr;   // one thread for texts of megabytes; null: text_workers
  TokenQuotas* quotas = nullptr;      // null: nobody has one
};

// Where the tokens of this caller's call are charged; null: nowhere.
std::shared_ptr<TokenCharge> OpenCharge(const ServiceContext& services, const Caller& caller);

// Who calls, by the gate: an empty name where nobody is asked for one. Refusals are counted.
absl::StatusOr<std::string> Enter(ServiceContext& services, const Shown& shown, Right right);
// The same, and a refusal has a line in the log where every request has one.
absl::StatusOr<std::string> Enter(ServiceContext& services, Rpc rpc,
                                  const grpc::CallbackServerContext& context, Right right);
// Of one more request of a stream of gRPC's: whether its caller may still call, whose token or
// rights may have been taken back since it began. Refusals are counted.
absl::Status EnterAgain(ServiceContext& services, const Caller& caller, Right right);
// That line: of a call which the gate has refused, before anything of its request was read.
void LogRefusal(const ServiceContext& services, Rpc rpc, const Caller& caller,
                const absl::Status& refusal);

class CallState {
 public:
  CallState(ServiceContext& services, Rpc rpc) : services_(services), start_(Clock::now()) {
    record_.rpc = rpc;
  }

  ServiceContext& services() { return services_; }
  // To be asked before any work is spent; counts refusals. With `num_places` for other calls too
  // that end with this one.
  absl::Status Admit(int32_t num_places = 1);
  // Others may have the call's places, as its end is certain; Fail gives them too.
  void GivePlaces();
  // The same before its answer is sent, so that what its client sends next finds a place. False:
  // they are kept until Done, as clients have more unread than the limit of that.
  bool GivePlacesUnlessUnread();
  // The same of an answer of so many bytes that has not been held. They are, from now on.
  bool GivePlacesBefore(int64_t answer_bytes);
  // The same of a call with one request. INVALID_ARGUMENT, without a place among those that run,
  // where none has come: the client has gone, which makes the call a cancelled one, or it sends
  // none.
  absl::Status Admit(const grpc::ByteBuffer& request);
  // Passes on what the engine says to a request, and counts refusals. A model that has gone since
  // the request's model was resolved is reported as an unknown one.
  template <typename Handle>
  absl::StatusOr<Handle> CountRefusal(absl::StatusOr<Handle> accepted) {
    if (accepted.ok()) return accepted;
    RecordRefusal(accepted.status());
    if (!absl::IsNotFound(accepted.status())) return accepted;
    return FieldError({.field = "model", .text = std::string(accepted.status().message())});
  }
  // Parses what the client sent. The call is recorded under the model and the request_id that can
  // be read there, even when the message does not parse.
  absl::Status Parse(const grpc::ByteBuffer& buffer, google::protobuf::Message& message);
  // The same; of a message that parses whoever resolves its model records the names (methods.h).
  absl::Status ParseOnly(const grpc::ByteBuffer& buffer, google::protobuf::Message& message);
  // Records the call under the model and the request_id of a message, whatever it was parsed of.
  void Describe(const google::protobuf::Message& message);
  // Of a protocol in which the request itself says which of the RPCs it is like.
  void SetRpc(Rpc rpc) { record_.rpc = rpc; }
  void SetRequestId(const std::string& request_id) { record_.request_id = request_id; }
  void SetModel(const std::string& model) { record_.model = model; }
  const std::string& client() const { return record_.client; }
  const std::string& request_id() const { return record_.request_id; }
  const std::string& model() const { return record_.model; }  // empty: none is known yet
  // Records that the call ends with this error, and returns it as the contract tells it.
  google::rpc::Status Fail(const absl::Status& status);
  // The same for gRPC.
  grpc::Status FailCall(const absl::Status& status);
  // The client has gone: what is ready, or will be, does not reach it. Any thread, before Done.
  void SetUnsent() { unsent_ = true; }
  bool is_unsent() const { return unsent_; }
  // It has ended because there is too much of something.
  bool is_refused() const { return record_.code == absl::StatusCode::kResourceExhausted; }
  void SetAnswer(const Timing& timing, const Usage& usage) {
    record_.timing = timing;
    record_.usage = usage;
  }
  void SetRequestBytes(size_t bytes) { record_.request_bytes = static_cast<int64_t>(bytes); }
  // Before the call keeps so many bytes of its `what`, "request" or "answer", until it is over:
  // RESOURCE_EXHAUSTED when calls keep too many together.
  absl::Status Hold(std::string_view what, int64_t bytes);
  // Of one request of a stream: room for its answer is asked for before it is computed, unless
  // `given` is that room already.
  void UseRoom(AnswerRoom& room, AnswerRoom::PlacePtr given) {
    room_ = &room;
    place_ = std::move(given);
  }
  // Room for an answer of at most so many bytes; null: it needs none. CANCELLED when there
  // is none: the request is to be taken later, when there is room for wanted_bytes().
  absl::StatusOr<AnswerRoom::PlacePtr> TakeRoom(int64_t bytes);
  int64_t wanted_bytes() const { return wanted_bytes_; }  // 0: none were refused
  // What it keeps is about to be sent as its answer, all of it: the call is cancelled when its
  // client takes too long to read that.
  void EndIfUnread();
  // So many bytes more are sent.
  void AddAnswerBytes(int64_t bytes) { record_.answer_bytes += bytes; }
  void SetCaller(const Caller& caller);
  // The same; who calls from where, and in which trace, the caller does not know any more.
  void TakeCaller(Caller& caller);
  // The call is over: gives its place back, records it and logs it.
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
  const grpc::CallbackServerContext* context_ = nullptr;  // null: of another protocol, or not known
  std::atomic<bool> unsent_{false};
};

}  // namespace beamline
