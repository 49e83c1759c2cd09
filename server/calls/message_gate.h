// Reactors of calls with one request. They read it once the call has a slot (message_budget.h).
// Then they pass all events to the reactor of the service's method.
//
// gRPC reads the request of a unary method before it reports the call. So these methods are
// registered as streams of requests, of which they read one. The metadata of a call is then known
// before any byte of its request is kept. An unauthorized call is refused without reading it.
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "google/protobuf/descriptor.h"
#include "grpcpp/generic/async_generic_service.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/server_callback.h"
#include "server/calls/call_state.h"
#include "server/calls/message_budget.h"

namespace beamline {

// The client that begins a call, from facts that it cannot choose freely: the identity, else the
// peer's address (IPv6: its first 64 bits).
std::string MessageClient(const grpc::CallbackServerContext& context, const std::string& identity);
// RESOURCE_EXHAUSTED: no slot in time, or the client keeps too many bytes. DEADLINE_EXCEEDED: the
// message was not complete in time.
grpc::Status LateMessage(const MessageBudget& budget, MessageBudget::Late why);

// Common part of unary calls and server streams. Reactor: the method's reactor type. Answer: its
// message type.
template <typename Reactor, typename Answer>
class MessageGate : public grpc::ServerBidiReactor<grpc::ByteBuffer, Answer>,
                    public MessageBudget::Entry {
 public:
  // `client`: from MessageClient.
  void EnterBudget(const std::string& client) {
    if (budget_.Enter(*this, client, context_->peer())) this->StartRead(&request_);
  }

  // The request is invalid if none came.
  void OnReadDone(bool) override {
    if (budget_.Leave(*this, static_cast<int64_t>(request_.Length()))) Start();
  }
  void OnCancel() override {
    if (budget_.Withdraw(*this)) Start();
    if ((state_.fetch_or(kCancelled) & kBegun) != 0) reactor_->OnCancel();
  }
  void OnSendInitialMetadataDone(bool ok) override { reactor_->OnSendInitialMetadataDone(ok); }
  void OnDone() override {
    if (reactor_ != nullptr) reactor_->OnDone();
    delete this;
  }

 protected:
  MessageGate(MessageBudget& budget, grpc::CallbackServerContext* context)
      : budget_(budget), context_(context) {}
  ~MessageGate() override = default;

  // Calls the service's method.
  virtual Reactor* Begin(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request) = 0;
  // Connects the reactor to the object that it answers through.
  virtual void Bind(Reactor* reactor) = 0;
  Reactor* reactor() const { return reactor_; }

 private:
  static constexpr int kBegun = 1, kCancelled = 2;

  void OnPlace() final { this->StartRead(&request_); }
  void OnLate(MessageBudget::Late why) final { this->Finish(LateMessage(budget_, why)); }
  // As without a gate, the method's reactor gets no event before the method has returned.
  void Start() {
    reactor_ = Begin(context_, &request_);
    request_.Clear();  // methods parse it and keep nothing of it
    Bind(reactor_);
    if ((state_.fetch_or(kBegun) & kCancelled) != 0) reactor_->OnCancel();
  }

  MessageBudget& budget_;
  grpc::CallbackServerContext* const context_;
  grpc::ByteBuffer request_;
  Reactor* reactor_ = nullptr;
  std::atomic<int> state_{0};
};

// A unary call.
class UnaryGate final : public MessageGate<grpc::ServerUnaryReactor, grpc::ByteBuffer> {
 public:
  using Method = std::function<grpc::ServerUnaryReactor*(
      grpc::CallbackServerContext*, const grpc::ByteBuffer*, grpc::ByteBuffer*)>;
  // `method` lives as long as the service.
  UnaryGate(MessageBudget& budget, grpc::CallbackServerContext* context, const Method& method)
      : MessageGate(budget, context), method_(method) {}

 private:
  // The call object that gRPC's reactor writes to.
  class Call final : public grpc::ServerCallbackUnary {
   public:
    explicit Call(UnaryGate& gate) : gate_(gate) {}
    void BindTo(grpc::ServerUnaryReactor* reactor) { BindReactor(reactor); }
    void Finish(grpc::Status status) override {
      if (!status.ok()) return gate_.Finish(std::move(status));
      gate_.StartWriteAndFinish(&gate_.answer_, grpc::WriteOptions(), std::move(status));
    }
    void SendInitialMetadata() override { gate_.StartSendInitialMetadata(); }

   private:
    grpc::internal::ServerReactor* reactor() override { return gate_.reactor(); }
    void CallOnDone() override {}
    UnaryGate& gate_;
  };

  ~UnaryGate() override = default;
  grpc::ServerUnaryReactor* Begin(grpc::CallbackServerContext* context,
                                  const grpc::ByteBuffer* request) override {
    return method_(context, request, &answer_);
  }
  void Bind(grpc::ServerUnaryReactor* reactor) override { call_.BindTo(reactor); }
  // As UnaryCall's.
  bool InternalInlineable() { return true; }  // NOLINT: overrides where gRPC has it

  const Method& method_;
  grpc::ByteBuffer answer_;
  Call call_{*this};
};

// A call with one request and a stream of answers.
class StreamGate final
    : public MessageGate<grpc::ServerWriteReactor<grpc::ByteBuffer>, grpc::ByteBuffer> {
 public:
  using Method = std::function<grpc::ServerWriteReactor<grpc::ByteBuffer>*(
      grpc::CallbackServerContext*, const grpc::ByteBuffer*)>;
  StreamGate(MessageBudget& budget, grpc::CallbackServerContext* context, const Method& method)
      : MessageGate(budget, context), method_(method) {}

  void OnWriteDone(bool ok) override { reactor()->OnWriteDone(ok); }

 private:
  class Call final : public grpc::ServerCallbackWriter<grpc::ByteBuffer> {
   public:
    explicit Call(StreamGate& gate) : gate_(gate) {}
    void BindTo(grpc::ServerWriteReactor<grpc::ByteBuffer>* reactor) { BindReactor(reactor); }
    void Finish(grpc::Status status) override { gate_.Finish(std::move(status)); }
    void SendInitialMetadata() override { gate_.StartSendInitialMetadata(); }
    void Write(const grpc::ByteBuffer* message, grpc::WriteOptions options) override {
      gate_.StartWrite(message, options);
    }
    void WriteAndFinish(const grpc::ByteBuffer* message, grpc::WriteOptions options,
                        grpc::Status status) override {
      gate_.StartWriteAndFinish(message, options, std::move(status));
    }

   private:
    grpc::internal::ServerReactor* reactor() override { return gate_.reactor(); }
    void CallOnDone() override {}
    StreamGate& gate_;
  };

  ~StreamGate() override = default;
  grpc::ServerWriteReactor<grpc::ByteBuffer>* Begin(grpc::CallbackServerContext* context,
                                                    const grpc::ByteBuffer* request) override {
    return method_(context, request);
  }
  void Bind(grpc::ServerWriteReactor<grpc::ByteBuffer>* reactor) override { call_.BindTo(reactor); }

  const Method& method_;
  Call call_{*this};
};

// Access control of a method. Without an RPC a refusal is not logged.
struct MethodAccess {
  std::optional<Rpc> rpc;
  Right right = Right::kInference;
  bool is_open = false;  // no authentication
};

// Handlers for grpc::Service::MarkMethodStreamed, which owns them. `services` outlives them.
grpc::internal::MethodHandler* GatedUnary(ServiceContext& services, const MethodAccess& access,
                                          UnaryGate::Method method);
grpc::internal::MethodHandler* GatedStream(ServiceContext& services, const MethodAccess& access,
                                           StreamGate::Method method);

// A method of a service, as GatedUnary takes it.
template <auto kMethod, typename Service>
UnaryGate::Method BindMethod(Service* service) {
  return [service](grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                   grpc::ByteBuffer* response) {
    return (service->*kMethod)(context, request, response);
  };
}

// Index of a method in its service, as grpc::Service counts. REQUIRES: it exists.
int MethodIndex(const google::protobuf::FileDescriptor& file, std::string_view service,
                std::string_view method);

}  // namespace beamline
