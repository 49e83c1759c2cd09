// GenerateMany and EncodeMany: sends requests to the engine as they arrive, and answers as they
// finish.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "base/field_error.h"
#include "base/status.h"
#include "base/text.h"
#include "beamline/v1/inference.pb.h"
#include "engine/api/engine.h"
#include "fmt/format.h"
#include "server/calls/many_stream.h"
#include "server/calls/methods.h"
#include "server/wire/errors.h"
#include "server/wire/wire.h"

namespace beamline {

// Envelope: the message of one answer, {request_id, response or error}.
template <typename Method, typename Envelope, Rpc kRpc>
class ManyCall final : public ManyStream {
 public:
  ManyCall(ServiceContext& services, Caller caller)
      : ManyStream(services, kRpc), caller_(std::move(caller)) {}

 private:
  using Result = typename Method::Result;

  struct Item {
    std::unique_ptr<CallState> state;
    std::string id;
    typename Method::Options answer;
    std::shared_ptr<RequestHandle> handle;  // guarded by mutex_
    std::optional<absl::StatusOr<Result>> result;
  };
  using ItemPtr = std::shared_ptr<Item>;

  // The engine owns it. It uses the stream only until OnFinish.
  class Sink final : public Method::Sink {
   public:
    Sink(ManyCall& call, ItemPtr item) : call_(call), item_(std::move(item)) {}
    void OnFinish(absl::StatusOr<Result> result) override {
      item_->result = std::move(result);
      call_.services().writers.Post([call = &call_, item = item_] { call->Complete(*item); });
    }

   private:
    ManyCall& call_;
    ItemPtr item_;
  };

  void Take(const grpc::ByteBuffer& buffer) override {
    const auto item = std::make_shared<Item>();
    item->state = std::make_unique<CallState>(services(), kRpc);
    item->state->SetCaller(caller_);
    UseRoom(*item->state);
    const absl::Status status = Submit(item, buffer);
    if (status.ok()) return;
    if (IsTakenLater(*item->state)) return FreeId(*item);
    Fail(*item, status);
  }

  absl::Status Submit(const ItemPtr& item, const grpc::ByteBuffer& buffer) {
    typename Method::Request message;
    const absl::Status parsed = item->state->Parse(buffer, message);
    item->id = item->state->request_id();
    BEAMLINE_RETURN_IF_ERROR(parsed);
    BEAMLINE_RETURN_IF_ERROR(Register(item));
    BEAMLINE_RETURN_IF_ERROR(EnterAgain(services(), caller_, Right::kInference));
    BEAMLINE_RETURN_IF_ERROR(item->state->Admit());
    BEAMLINE_ASSIGN_OR_RETURN(auto handle,
                              Method::Submit(*item->state, message, caller_,
                                             std::make_shared<Sink>(*this, item), item->answer));
    Keep(*item, std::move(handle));
    return absl::OkStatus();
  }

  absl::Status Register(const ItemPtr& item) {
    if (item->id.empty()) {
      return FieldError("request_id", "empty",
                        "a name for the answer, as this is one request of many");
    }
    std::lock_guard lock(mutex_);
    if (running_.emplace(item->id, item).second) return absl::OkStatus();
    return FieldError("request_id",
                      fmt::format("'{}', as is that of a request of this stream which is still "
                                  "unanswered",
                                  Shorten(item->id)),
                      "another one");
  }

  // The request may have ended already. Cancelling it does nothing then.
  void Keep(Item& item, std::shared_ptr<RequestHandle> handle) {
    bool cancel = false;
    {
      std::lock_guard lock(mutex_);
      item.handle = handle;
      cancel = cancelled_;
    }
    if (cancel) handle->Cancel();
  }

  void CancelAll() override {
    std::vector<std::shared_ptr<RequestHandle>> handles;
    {
      std::lock_guard lock(mutex_);
      cancelled_ = true;
      for (const auto& [id, item] : running_) {
        if (item->handle != nullptr) handles.push_back(item->handle);
      }
    }
    for (const auto& handle : handles) handle->Cancel();
  }

  void Complete(Item& item) {
    if (!item.result->ok()) return Fail(item, item.result->status());
    auto response = Method::Answer(*item.state, **item.result, item.answer);
    if (!response.ok()) return Fail(item, response.status());
    Envelope envelope;
    envelope.set_request_id(item.id);
    *envelope.mutable_response() = *std::move(response);
    const auto bytes = static_cast<int64_t>(envelope.ByteSizeLong());
    if (bytes > max_send_bytes()) return Fail(item, AnswerTooLarge(bytes, max_send_bytes()));
    Send(item, envelope);
  }

  void Fail(Item& item, const absl::Status& status) {
    Envelope envelope;
    envelope.set_request_id(item.id);
    *envelope.mutable_error() = item.state->Fail(status);
    // Happens with a small max_send_bytes, or with an id that is refused for its length.
    const auto too_large = [&] {
      return static_cast<int64_t>(envelope.ByteSizeLong()) > max_send_bytes();
    };
    if (too_large()) envelope.mutable_error()->clear_details();
    if (too_large()) envelope.clear_request_id();
    Send(item, envelope);
  }

  // Frees the id before the answer is sent: the client may reuse it once it has the answer.
  void Send(Item& item, const Envelope& envelope) {
    FreeId(item);
    item.state->AddAnswerBytes(static_cast<int64_t>(envelope.ByteSizeLong()));
    Answer(SerializeMessage(envelope), std::move(item.state));
  }

  void FreeId(const Item& item) {
    std::lock_guard lock(mutex_);
    const auto it = running_.find(item.id);
    if (it != running_.end() && it->second.get() == &item) running_.erase(it);
  }

  int64_t max_send_bytes() { return services().stream_limits.max_send_bytes; }

  const Caller caller_;
  std::mutex mutex_;
  absl::flat_hash_map<std::string, ItemPtr> running_;  // by request_id; guarded by mutex_
  bool cancelled_ = false;                             // guarded by mutex_
};

using GenerateManyCall = ManyCall<GenerateMethod, v1::GenerateManyResponse, Rpc::kGenerateMany>;
using EncodeManyCall = ManyCall<EncodeMethod, v1::EncodeManyResponse, Rpc::kEncodeMany>;

}  // namespace beamline
