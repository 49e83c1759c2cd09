// A unary call that makes one request to the engine: Generate, Encode, Score and the like.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include "absl/status/statusor.h"
#include "base/status.h"
#include "engine/api/engine.h"
#include "google/protobuf/arena.h"
#include "server/calls/caller.h"
#include "server/calls/methods.h"
#include "server/calls/unary_call.h"

namespace beamline {

template <typename Method>
class EngineCall final : public UnaryCall {
 public:
  using UnaryCall::UnaryCall;

  // Call once, within the service's method.
  void Start(Caller caller, const grpc::ByteBuffer& buffer) {
    state().TakeCaller(caller);
    const absl::Status status = Submit(caller, buffer);
    if (!status.ok()) Fail(status);
  }

  void OnCancel() override {
    UnaryCall::OnCancel();
    if (handle_ != nullptr) handle_->Cancel();
  }

 private:
  using Arena = google::protobuf::Arena;
  using Request = typename Method::Request;
  using Response = typename Method::Response;
  using Result = typename Method::Result;

  // Stack memory for the arena of a small message.
  struct alignas(8) Block : std::array<char, 1024> {};
  static constexpr size_t kMostBytesOnArena = 1024;  // of a serialized request

  // A member of the call. The engine may keep its pointer for longer, but calls nothing after
  // OnFinish.
  class Sink final : public Method::Sink {
   public:
    explicit Sink(EngineCall& call) : call_(call) {}
    void OnFinish(absl::StatusOr<Result> result) override {
      EngineCall* call = &call_;
      const bool brief = !result.ok() || Method::IsBrief(*result);
      call->result_ = std::move(result);
      WorkerPool& writers = call->services().writers;
      const auto complete = [call] { call->Complete(); };
      brief ? writers.PostBrief(complete) : writers.Post(complete);
    }

   private:
    EngineCall& call_;
  };

  absl::Status Submit(const Caller& caller, const grpc::ByteBuffer& buffer) {
    BEAMLINE_RETURN_IF_ERROR(state().Admit(buffer));
    Block block;
    Arena arena(block.data(), block.size());
    // A list that grows leaves its old memory in an arena, so large messages use none.
    const bool is_brief = buffer.Length() <= kMostBytesOnArena;
    std::optional<Request> large;
    Request& message = is_brief ? *Arena::CreateMessage<Request>(&arena) : large.emplace();
    BEAMLINE_RETURN_IF_ERROR(state().ParseOnly(buffer, message));
    if constexpr (requires { message.request_id(); }) {
      // The request_id is recorded here, the model where it is resolved.
      state().SetRequestId(message.request_id());
      const absl::Status submitted = Submit(caller, message);
      if (!submitted.ok() && state().model().empty()) state().Describe(message);
      return submitted;
    } else {
      state().Describe(message);
      return Submit(caller, message);
    }
  }

  absl::Status Submit(const Caller& caller, const Request& message) {
    std::shared_ptr<Sink> sink;
    if constexpr (std::is_base_of_v<GenerateSink, Sink>) {
      sink = std::make_shared<Sink>(*this);  // the engine may call wants_deltas() after OnFinish
    } else {
      sink = {std::shared_ptr<Sink>(), &sink_};  // no ownership
    }
    // OnCancel is not called before the service's method has returned, so it sees handle_.
    BEAMLINE_ASSIGN_OR_RETURN(handle_,
                              Method::Submit(state(), message, caller, std::move(sink), answer_));
    return absl::OkStatus();
  }

  void Complete() {
    if (!result_->ok()) return Fail(result_->status());
    if constexpr (requires(Response message) {
                    Method::Answer(state(), **result_, answer_, message);
                  }) {
      Block block;
      Arena arena(block.data(), block.size());
      Response& message = *Arena::CreateMessage<Response>(&arena);
      Method::Answer(state(), **result_, answer_, message);
      return Reply(message);
    }
    const auto response = Method::Answer(state(), **result_, answer_);
    if (!response.ok()) return Fail(response.status());
    Reply(*response);
  }

  Sink sink_{*this};
  typename Method::Options answer_;
  std::shared_ptr<RequestHandle> handle_;
  std::optional<absl::StatusOr<Result>> result_;
};

}  // namespace beamline
