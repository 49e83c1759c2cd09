#include <grpcpp/grpcpp.h>

#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "beamline/v1/inference.grpc.pb.h"
#include "bench/rpc/calls.h"

namespace beamline {
namespace {

using v1::GenerateStreamResponse;

absl::Status StatusOf(const grpc::Status& status) {
  return {static_cast<absl::StatusCode>(status.error_code()), status.error_message()};
}

int CountTokens(const GenerateStreamResponse& message) { return message.deltas_size() > 0 ? 1 : 0; }

// W3C trace context, level 1, 3.2.
constexpr char kTraceParent[] = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

// Metadata of each call.
using Shown = std::vector<std::pair<std::string, std::string>>;

void Show(const Shown& shown, grpc::ClientContext& context) {
  for (const auto& [name, value] : shown) context.AddMetadata(name, value);
}

std::shared_ptr<grpc::ChannelCredentials> CredentialsOf(const CallerOptions& caller) {
  if (caller.authority.empty()) return grpc::InsecureChannelCredentials();
  grpc::SslCredentialsOptions options;
  options.pem_root_certs = caller.authority;
  return grpc::SslCredentials(options);
}

struct UnaryCall {
  grpc::ClientContext context;
  v1::EncodeResponse response;
  std::function<void(Messages)> done;
};

class StreamCall final : public grpc::ClientReadReactor<GenerateStreamResponse> {
 public:
  StreamCall(v1::Inference::Stub& stub, const v1::GenerateRequest& request, const Shown& shown,
             std::function<void(Messages)> done)
      : done_(std::move(done)) {
    Show(shown, context_);
    stub.async()->GenerateStream(&context_, &request, this);
    StartRead(&message_);
    StartCall();
  }
  void OnReadDone(bool ok) override {
    if (!ok) return;
    messages_ += CountTokens(message_);
    StartRead(&message_);
  }
  void OnDone(const grpc::Status& status) override {
    const Messages messages = status.ok() ? Messages(messages_) : StatusOf(status);
    const auto done = std::move(done_);
    delete this;
    done(messages);
  }

 private:
  grpc::ClientContext context_;
  GenerateStreamResponse message_;
  int messages_ = 0;
  std::function<void(Messages)> done_;
};

class RemoteCalls final : public Calls {
 public:
  RemoteCalls(const std::string& target, int num_connections, const BenchCall& options,
              const CallerOptions& caller)
      : kind_(options.kind) {
    if (!caller.token.empty()) shown_.emplace_back("authorization", "Bearer " + caller.token);
    if (caller.is_traced) shown_.emplace_back("traceparent", kTraceParent);
    const auto credentials = CredentialsOf(caller);
    for (int i = 0; i < num_connections; ++i) {
      grpc::ChannelArguments arguments;
      arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);  // a connection per channel
      stubs_.push_back(
          v1::Inference::NewStub(grpc::CreateCustomChannel(target, credentials, arguments)));
    }
    encode_.set_model(options.model);
    generate_.set_model(options.model);
    auto& encoded = *encode_.add_inputs()->mutable_ids();
    auto& prompt = *generate_.mutable_prompt()->mutable_ids();
    for (int i = 0; i < options.prompt_tokens; ++i) {
      encoded.add_ids(5 + i);
      prompt.add_ids(5 + i);
    }
    generate_.mutable_greedy();
    generate_.mutable_limits()->set_max_new_tokens(options.new_tokens);
    generate_.mutable_limits()->set_ignore_eos(true);
  }

  Messages Make() override {
    v1::Inference::Stub& stub = NextStub();
    grpc::ClientContext context;
    Show(shown_, context);
    if (kind_ == CallKind::kEncode) {
      v1::EncodeResponse response;
      const grpc::Status status = stub.Encode(&context, encode_, &response);
      return status.ok() ? Messages(1) : StatusOf(status);
    }
    int messages = 0;
    GenerateStreamResponse message;
    const auto reader = stub.GenerateStream(&context, generate_);
    while (reader->Read(&message)) messages += CountTokens(message);
    const grpc::Status status = reader->Finish();
    return status.ok() ? Messages(messages) : StatusOf(status);
  }

  void Start(std::function<void(Messages)> done) override {
    v1::Inference::Stub& stub = NextStub();
    if (kind_ == CallKind::kStream) {
      new StreamCall(stub, generate_, shown_, std::move(done));
      return;
    }
    auto* const call = new UnaryCall;
    Show(shown_, call->context);
    call->done = std::move(done);
    stub.async()->Encode(&call->context, &encode_, &call->response, [call](grpc::Status status) {
      const auto ended = std::move(call->done);
      delete call;
      ended(status.ok() ? Messages(1) : StatusOf(status));
    });
  }

 private:
  v1::Inference::Stub& NextStub() { return *stubs_[next_++ % stubs_.size()]; }

  const CallKind kind_;
  Shown shown_;
  v1::EncodeRequest encode_;
  v1::GenerateRequest generate_;
  std::vector<std::unique_ptr<v1::Inference::Stub>> stubs_;
  std::atomic<size_t> next_{0};
};

}  // namespace

std::unique_ptr<Calls> MakeRemoteCalls(const std::string& target, int num_connections,
                                       const BenchCall& options, const CallerOptions& caller) {
  return std::make_unique<RemoteCalls>(target, num_connections, options, caller);
}

}  // namespace beamline
