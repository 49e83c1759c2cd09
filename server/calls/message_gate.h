// The reactors of calls with one request, which read it once there is a place for it
// (message_budget.h), and then are what the service's method makes of the call.
//
// gRPC reads the request of a unary method before it tells anybody of the call. So these methods
// are registered as streams of requests, of which they read one: the call is known by its metadata
// before anything of its request is kept, and one whose caller may not call has none read.
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "google/protobuf/descriptor.h"
#include "grpcpp/impl/codegen/server_callback_handlers.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/server_callback.h"
#include "server/calls/call_state.h"
#include "server/calls/message_budget.h"

namespace beamline {

// Who begins a call, as far as it is not for him to say: the identity, else the peer's address, of
// IPv6 its first 64 bits.
std::string MessageClient(const grpc::CallbackServerContext& context, const std::string& identity);
// RESOURCE_EXHAUSTED of a call that found no place in time, or whose client keeps too much;
// DEADLINE_EXCEEDED of one whose message was not whole in time.
grpc::Status LateMessage(const MessageBudget& budget, MessageBudget::Late why);

// What unary calls and streams of answers have in common. Reactor: the method's; Answer: its
// messages.
template <typename Reactor, typename Answer>
class MessageGate : public grpc::ServerBidiReactor<grpc::ByteBuffer, Answer>,
                    public MessageBudget::Entry {
 public:
  // `client`: of MessageClient.
  void EnterBudget(const std::string& client) {
    if (budget_.Enter(*this, client, context_->peer())) this->StartRead(&request_);
  }

  // The request is not valid where none has come.
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

  // Begins the call as the service's method does.
  virtual Reactor* Begin(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request) = 0;
  // Gives the reactor what it answers with.
  virtual void Bind(Reactor* reactor) = 0;
  Reactor* reactor() const { return reactor_; }

 private:
  static constexpr int kBegun = 1, kCancelled = 2;

  void OnPlace() final { this->StartRead(&request_); }
  void OnLate(MessageBudget::Late why) final { this->Finish(LateMessage(budget_, why)); }
  // Nothing of the method's is called before it has returned, as without a gate.
  void Start() {
    reactor_ = Begin(context_, &request_);
    request_.Clear();  // methods parse it, and keep nothing of it
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
  // `method` lasts as long as the service.
  UnaryGate(MessageBudget& budget, grpc::CallbackServerContext* context, const Method& method)
      : MessageGate(budget, context), method_(method) {}

 private:
  // What the method's reactor takes for the call.
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
  bool InternalInlineable() override { return true; }

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

// Who may call a method. Without an RPC a refusal has no line in the log.
struct MethodAccess {
  std::optional<Rpc> rpc;
  Right right = Right::kInference;
  bool is_open = false;  // anybody may, and is asked for nothing
};

// Handlers for grpc::Service::MarkMethodStreamed, which owns them. `services` outlives them.
grpc::internal::MethodHandler* GatedUnary(ServiceContext& services, const MethodAccess& access,
                                          UnaryGate::Method method);
grpc::internal::MethodHandler* GatedStream(ServiceContext& services, const MethodAccess& access,
                                           StreamGate::Method method);

// The method of a service as GatedUnary takes it.
template <auto kMethod, typename Service>
UnaryGate::Method BindMethod(Service* service) {
  return [service](grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                   grpc::ByteBuffer* response) {
    return (service->*kMethod)(context, request, response);
  };
}

// The place of a method in its service, as grpc::Service knows it. REQUIRES: there is one.
int MethodIndex(const google::protobuf::FileDescriptor& file, std::string_view service,
                std::string_view method);

}  // namespace beamline
