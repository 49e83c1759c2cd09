// POST /v1/embeddings: one Encode request.
#pragma once

#include <memory>
#include <mutex>
#include <optional>

#include "server/calls/call_state.h"
#include "server/calls/caller.h"
#include "server/calls/methods.h"
#include "server/http/exchange.h"
#include "server/http/openai_request.h"

namespace beamline {

// All users of the call hold a shared_ptr to it. The last one destroys it, and the destructor
// records it.
class EmbeddingCall final : public std::enable_shared_from_this<EmbeddingCall> {
 public:
  EmbeddingCall(ServiceContext& services, std::shared_ptr<Exchange> exchange)
      : services_(services), exchange_(std::move(exchange)), state_(services, Rpc::kEncode) {}
  ~EmbeddingCall() { state_.Done(); }

  // Call once, within the handler's Handle.
  void Start();

 private:
  class Sink;

  absl::Status Begin();
  void Run();
  absl::Status Submit();
  void Cancel();
  void Complete(const absl::StatusOr<EncodeResult>& result);
  void Fail(const absl::Status& status);
  void Send(HttpAnswer answer);

  ServiceContext& services_;
  const std::shared_ptr<Exchange> exchange_;
  CallState state_;
  Caller caller_;
  EmbeddingRequest request_;
  AnswerOptions answer_;

  std::mutex mutex_;
  std::shared_ptr<RequestHandle> handle_;  // guarded by mutex_
  bool cancelled_ = false;                 // guarded by mutex_
};

}  // namespace beamline
