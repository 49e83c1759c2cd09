// Streams of tei.v1: many requests of one kind, answered in order. The messages have no field for
// errors, so the first error ends the stream with its status, after all earlier answers.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/statusor.h"
#include "base/status.h"
#include "base/stop_check.h"
#include "engine/api/engine.h"
#include "google/protobuf/message.h"
#include "server/calls/caller.h"
#include "server/calls/many_stream.h"
#include "server/calls/running_requests.h"

namespace beamline {

// The common base of both kinds below.
class OrderedStream : public ManyStream {
 protected:
  struct Place {
    std::unique_ptr<CallState> state;
    uint64_t index = 0;  // of the request
  };
  using PlacePtr = std::shared_ptr<Place>;

  OrderedStream(ServiceContext& services, Rpc rpc, Caller caller)
      : ManyStream(services, rpc), rpc_(rpc), caller_(std::move(caller)) {}

  const Caller& caller() const { return caller_; }
  // REQUIRES: called within Take. Assigns the request's index.
  void Enter(const PlacePtr& place);
  // Undoes Enter, for a request that is taken again later.
  void Leave(const PlacePtr& place);
  void Keep(const PlacePtr& place, const std::shared_ptr<RequestHandle>& handle) {
    running_.Keep(place.get(), handle);
  }
  // Call one of Reply and Fail, once.
  void Reply(const PlacePtr& place, const google::protobuf::Message& message);
  void Fail(const PlacePtr& place, const absl::Status& status);

 private:
  void CancelAll() override { running_.CancelAll(); }

  const Rpc rpc_;
  const Caller caller_;
  uint64_t next_index_ = 0;  // used in Take only, of which one runs at a time
  RunningRequests running_;
};

// Requests to the engine, by a Method as for engine_call.h.
template <typename Method>
class OrderedEngineStream final : public OrderedStream {
 public:
  OrderedEngineStream(ServiceContext& services, Rpc rpc, Caller caller)
      : OrderedStream(services, rpc, std::move(caller)) {}

 private:
  using Result = typename Method::Result;
  struct Item final : Place {
    typename Method::Options answer;
    std::optional<absl::StatusOr<Result>> result;
  };
  using ItemPtr = std::shared_ptr<Item>;

  // The engine owns it. It uses the stream only until OnFinish.
  class Sink final : public Method::Sink {
   public:
    Sink(OrderedEngineStream& stream, ItemPtr item) : stream_(stream), item_(std::move(item)) {}
    void OnFinish(absl::StatusOr<Result> result) override {
      item_->result = std::move(result);
      stream_.services().writers.Post(
          [stream = &stream_, item = item_] { stream->Complete(item); });
    }

   private:
    OrderedEngineStream& stream_;
    ItemPtr item_;
  };

  void Take(const grpc::ByteBuffer& buffer) override {
    const auto item = std::make_shared<Item>();
    Enter(item);
    const absl::Status status = Submit(item, buffer);
    if (status.ok()) return;
    if (IsTakenLater(*item->state)) return Leave(item);
    Fail(item, status);
  }

  absl::Status Submit(const ItemPtr& item, const grpc::ByteBuffer& buffer) {
    typename Method::Request message;
    BEAMLINE_RETURN_IF_ERROR(EnterAgain(services(), caller(), Right::kInference));
    BEAMLINE_RETURN_IF_ERROR(item->state->Admit());
    BEAMLINE_RETURN_IF_ERROR(item->state->Parse(buffer, message));
    BEAMLINE_ASSIGN_OR_RETURN(auto handle,
                              Method::Submit(*item->state, message, caller(),
                                             std::make_shared<Sink>(*this, item), item->answer));
    Keep(item, handle);
    return absl::OkStatus();
  }

  void Complete(const ItemPtr& item) {
    if (!item->result->ok()) return Fail(item, item->result->status());
    const auto response = Method::Answer(*item->state, **item->result, item->answer);
    if (!response.ok()) return Fail(item, response.status());
    Reply(item, *response);
  }
};

// Requests to a tokenizer, by a Method as for token_calls.h.
template <typename Method>
class OrderedTokenStream final : public OrderedStream {
 public:
  OrderedTokenStream(ServiceContext& services, Rpc rpc, Caller caller)
      : OrderedStream(services, rpc, std::move(caller)) {}

 private:
  struct Item final : Place {
    typename Method::Request message;
    typename Method::Prepared prepared;
  };
  using ItemPtr = std::shared_ptr<Item>;

  void Take(const grpc::ByteBuffer& buffer) override {
    const auto item = std::make_shared<Item>();
    Enter(item);
    const absl::Status status = Prepare(item, buffer);
    if (!status.ok()) return Fail(item, status);
    if (!Method::IsLarge(item->message)) return Run(item);
    services().text_workers.Post([this, item] { Run(item); });
  }

  absl::Status Prepare(const ItemPtr& item, const grpc::ByteBuffer& buffer) {
    BEAMLINE_RETURN_IF_ERROR(EnterAgain(services(), caller(), Right::kInference));
    BEAMLINE_RETURN_IF_ERROR(item->state->Admit());
    BEAMLINE_RETURN_IF_ERROR(item->state->Parse(buffer, item->message));
    BEAMLINE_ASSIGN_OR_RETURN(item->prepared,
                              Method::Prepare(*item->state, item->message, caller().model));
    return absl::OkStatus();
  }

  void Run(const ItemPtr& item) {
    const StopWhen stop([&item] {
      return item->state->is_unsent() ? absl::CancelledError("cancelled by the client")
                                      : absl::OkStatus();
    });
    const auto response =
        Method::Answer(item->prepared, item->message, services().stream_limits.max_send_bytes);
    if (!response.ok()) return Fail(item, response.status());
    Reply(item, *response);
  }
};

}  // namespace beamline
