// The client's asynchronous calls.
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "client/async_attempts.h"
#include "client/client.h"
#include "client/grpc_status.h"
#include "client/stubs.h"

namespace beamline {
namespace {

// The service's methods with callbacks. Shared ownership of this keeps the stubs alive.
using MethodTable = v1::Inference::StubInterface::async_interface;
using Methods = std::shared_ptr<MethodTable>;

// One request, one answer.
template <typename Request, typename Response>
class UnaryCall final : public AsyncAttempts {
 public:
  using Method = void (MethodTable::*)(grpc::ClientContext*, const Request*, Response*,
                                       std::function<void(grpc::Status)>);

  UnaryCall(Methods methods, Method method, Request request, Client::OnDone<Response> on_done,
            const RetryPolicy& policy, const CallOptions& options,
            std::shared_ptr<AsyncCalls> calls)
      : AsyncAttempts(policy, options.timeout, std::move(calls)),
        methods_(std::move(methods)),
        method_(method),
        request_(std::move(request)),
        on_done_(std::move(on_done)) {}

 private:
  void Attempt(grpc::ClientContext& context) override {
    response_.Clear();
    auto ended = [self = std::static_pointer_cast<UnaryCall>(shared_from_this())](
                     const grpc::Status& status) { self->AttemptEnded(ToStatus(status), true); };
    (methods_.get()->*method_)(&context, &request_, &response_, std::move(ended));
  }

  void Deliver(const absl::Status& status) override {
    methods_ = nullptr;
    const auto on_done = std::exchange(on_done_, nullptr);
    if (!on_done) return;
    if (status.ok()) {
      on_done(std::move(response_));
    } else {
      on_done(status);
    }
  }

  Methods methods_;
  const Method method_;
  const Request request_;
  Response response_;
  Client::OnDone<Response> on_done_;
};

template <typename Request, typename Response, typename... Rest>
std::shared_ptr<AsyncAttempts> MakeUnaryCall(Methods methods,
                                             typename UnaryCall<Request, Response>::Method method,
                                             Request request, Client::OnDone<Response> on_done,
                                             const Rest&... rest) {
  return std::make_shared<UnaryCall<Request, Response>>(
      std::move(methods), method, std::move(request), std::move(on_done), rest...);
}

class StreamCall final : public AsyncAttempts {
 public:
  using Message = v1::GenerateStreamResponse;

  StreamCall(Methods methods, v1::GenerateRequest request, Client::OnMessage on_message,
             Client::OnDone<v1::StreamEnd> on_end, const RetryPolicy& policy,
             const CallOptions& options, std::shared_ptr<AsyncCalls> calls)
      : AsyncAttempts(policy, options.timeout, std::move(calls)),
        methods_(std::move(methods)),
        request_(std::move(request)),
        on_message_(std::move(on_message)),
        on_end_(std::move(on_end)) {}

 private:
  // Reads the stream of one attempt; deletes itself when that ends.
  class Reader final : public grpc::ClientReadReactor<Message> {
   public:
    explicit Reader(std::shared_ptr<StreamCall> call) : call_(std::move(call)) {}

    void Start() {
      StartRead(&message_);
      StartCall();
    }

   private:
    void OnReadDone(bool ok) override {
      if (!ok) return;
      call_->Take(message_);
      StartRead(&message_);  // a cancelled call too is read to its end
    }
    void OnDone(const grpc::Status& status) override {
      const std::unique_ptr<Reader> self(this);
      call_->StreamEnded(ToStatus(status));
    }

    const std::shared_ptr<StreamCall> call_;
    Message message_;
  };

  void Attempt(grpc::ClientContext& context) override {
    auto* const reader = new Reader(std::static_pointer_cast<StreamCall>(shared_from_this()));
    methods_->GenerateStream(&context, &request_, reader);
    reader->Start();
  }

  void Take(Message& message) {
    if (!is_cancelled() && on_message_) {
      const CallerScope scope;
      if (!on_message_(message)) Cancel();
    }
    const std::lock_guard lock(mutex_);
    has_begun_ = true;
    if (message.has_end()) end_ = std::move(*message.mutable_end());
  }

  void StreamEnded(absl::Status status) {
    bool has_begun = false;
    {
      const std::lock_guard lock(mutex_);
      has_begun = has_begun_;
      if (status.ok() && !end_.has_value()) {
        status = absl::DataLossError("the stream ended without its last message");
      }
    }
    AttemptEnded(std::move(status), !has_begun);
  }

  void Deliver(const absl::Status& status) override {
    methods_ = nullptr;
    on_message_ = nullptr;
    const auto on_end = std::exchange(on_end_, nullptr);
    if (!on_end) return;
    if (status.ok()) {
      on_end(*std::move(end_));
    } else {
      on_end(status);
    }
  }

  Methods methods_;
  const v1::GenerateRequest request_;
  Client::OnMessage on_message_;
  Client::OnDone<v1::StreamEnd> on_end_;

  std::mutex mutex_;  // guards what follows
  bool has_begun_ = false;
  std::optional<v1::StreamEnd> end_;
};

}  // namespace

void AsyncCall::Cancel() const {
  if (const auto attempts = attempts_.lock()) attempts->Cancel();
}

AsyncCall Client::Begin(std::shared_ptr<AsyncAttempts> attempts) const {
  async_calls_->Add(attempts);
  attempts->Begin();
  return AsyncCall(attempts);
}

AsyncCall Client::GenerateAsync(v1::GenerateRequest request, OnDone<v1::GenerateResponse> on_done,
                                const CallOptions& options) {
  return Begin(MakeUnaryCall(Methods(stubs_, stubs_->inference.async()), &MethodTable::Generate,
                             std::move(request), std::move(on_done), retry_, options,
                             async_calls_));
}

AsyncCall Client::GenerateStreamAsync(v1::GenerateRequest request, OnMessage on_message,
                                      OnDone<v1::StreamEnd> on_end, const CallOptions& options) {
  return Begin(std::make_shared<StreamCall>(Methods(stubs_, stubs_->inference.async()),
                                            std::move(request), std::move(on_message),
                                            std::move(on_end), retry_, options, async_calls_));
}

AsyncCall Client::EncodeAsync(v1::EncodeRequest request, OnDone<v1::EncodeResponse> on_done,
                              const CallOptions& options) {
  return Begin(MakeUnaryCall(Methods(stubs_, stubs_->inference.async()), &MethodTable::Encode,
                             std::move(request), std::move(on_done), retry_, options,
                             async_calls_));
}

AsyncCall Client::ClassifyAsync(v1::ClassifyRequest request, OnDone<v1::ClassifyResponse> on_done,
                                const CallOptions& options) {
  return Begin(MakeUnaryCall(Methods(stubs_, stubs_->inference.async()), &MethodTable::Classify,
                             std::move(request), std::move(on_done), retry_, options,
                             async_calls_));
}

AsyncCall Client::RerankAsync(v1::RerankRequest request, OnDone<v1::RerankResponse> on_done,
                              const CallOptions& options) {
  return Begin(MakeUnaryCall(Methods(stubs_, stubs_->inference.async()), &MethodTable::Rerank,
                             std::move(request), std::move(on_done), retry_, options,
                             async_calls_));
}

AsyncCall Client::ClassifyTokensAsync(v1::ClassifyTokensRequest request,
                                      OnDone<v1::ClassifyTokensResponse> on_done,
                                      const CallOptions& options) {
  return Begin(MakeUnaryCall(Methods(stubs_, stubs_->inference.async()),
                             &MethodTable::ClassifyTokens, std::move(request), std::move(on_done),
                             retry_, options, async_calls_));
}

AsyncCall Client::FillMaskAsync(v1::FillMaskRequest request, OnDone<v1::FillMaskResponse> on_done,
                                const CallOptions& options) {
  return Begin(MakeUnaryCall(Methods(stubs_, stubs_->inference.async()), &MethodTable::FillMask,
                             std::move(request), std::move(on_done), retry_, options,
                             async_calls_));
}

AsyncCall Client::ScoreAsync(v1::ScoreRequest request, OnDone<v1::ScoreResponse> on_done,
                             const CallOptions& options) {
  return Begin(MakeUnaryCall(Methods(stubs_, stubs_->inference.async()), &MethodTable::Score,
                             std::move(request), std::move(on_done), retry_, options,
                             async_calls_));
}

AsyncCall Client::TokenizeAsync(v1::TokenizeRequest request, OnDone<v1::TokenizeResponse> on_done,
                                const CallOptions& options) {
  return Begin(MakeUnaryCall(Methods(stubs_, stubs_->inference.async()), &MethodTable::Tokenize,
                             std::move(request), std::move(on_done), retry_, options,
                             async_calls_));
}

AsyncCall Client::DetokenizeAsync(v1::DetokenizeRequest request,
                                  OnDone<v1::DetokenizeResponse> on_done,
                                  const CallOptions& options) {
  return Begin(MakeUnaryCall(Methods(stubs_, stubs_->inference.async()), &MethodTable::Detokenize,
                             std::move(request), std::move(on_done), retry_, options,
                             async_calls_));
}

}  // namespace beamline
