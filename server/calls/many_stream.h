// The reactor of a stream of requests and answers: what GenerateMany, EncodeMany and the streams of
// other protocols have in common, without their messages (many_call.h, server/protocols/).
//
// At most one read and one write are in flight. Reading stops while `max_outstanding` requests have
// no written answer, some MiB of answers wait, or there is no room for what the next answer will
// take (answer_room.h), so a client that sends without reading fills its
// own connection and nothing else. A stream whose client keeps too much of messages that are not
// whole ends (message_budget.h). The call ends when the client has sent its last request and
// every answer is written, or, once the client takes no more, when every request that runs has
// ended.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/server_callback.h"
#include "server/calls/call_state.h"
#include "server/calls/message_budget.h"

namespace beamline {

class ManyStream : public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>,
                   public MessageBudget::Entry {
 public:
  ManyStream(ServiceContext& services, Rpc rpc) : services_(services), whole_(services, rpc) {}
  // Begins to read; to be called once, within the service's method. `identity`: of the caller.
  void Start(grpc::CallbackServerContext& context, const std::string& identity);

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

 protected:
  ~ManyStream() override = default;

  ServiceContext& services() { return services_; }
  // A request has come. It is owed one call of Answer or AnswerInOrder: at once, or later from any
  // thread. Requests are taken one at a time.
  virtual void Take(const grpc::ByteBuffer& request) = 0;
  // To be called within Take of each request, before it is submitted.
  void UseRoom(CallState& state);
  // Within Take, of a request that was not submitted. Whether that was for want of room for its
  // answer: it is taken again when there is room. Nothing may be left of it.
  bool IsTakenLater(const CallState& state);
  // Ends what runs as soon as possible. May be called more than once, also while Take runs.
  virtual void CancelAll() = 0;
  // Any thread. The request that `state` counts is over when its answer is written. The stream must
  // not be touched after it on behalf of that request.
  void Answer(grpc::ByteBuffer answer, std::unique_ptr<CallState> state);
  // The same, behind the answers to all requests of a lower `index`, of which the first is 0. A
  // stream has either kind. With `error` there is no answer: the stream ends with it, requests
  // behind it are cancelled, and what is answered to them is dropped.
  void AnswerInOrder(uint64_t index, grpc::ByteBuffer answer, std::unique_ptr<CallState> state,
                     std::optional<grpc::Status> error = std::nullopt);
  // Any thread. Writes a part of a request's answer, which Answer ends later; `written` is called
  // once it is written or dropped, must not wait, and keeps what it touches.
  void AnswerPart(grpc::ByteBuffer part, std::function<void()> written);

 private:
  void OnPlace() override {}  // streams have none
  void OnLate(MessageBudget::Late why) override;

  // As many bytes of answers wait for the client, and it reads no further.
  static constexpr size_t kMostWaitingBytes = 4 << 20;

  struct Waiting {
    grpc::ByteBuffer answer;
    std::unique_ptr<CallState> state;  // null: a part
    std::function<void()> written;     // of a part
    std::optional<grpc::Status> error;
    size_t bytes = 0;  // of the answer
  };

  // Take has returned.
  void EndTake();
  // There is room for the answer to the request that waits for it.
  void TakeNow(AnswerRoom::PlacePtr place);
  // Starts what can be started now, and finishes when nothing is left. `this` may be gone after it.
  void Advance(std::unique_lock<std::mutex> lock);
  // REQUIRE mutex_.
  void PutBack(Waiting waiting);
  // Before its answer is written. A large one keeps its place until then: nothing ends a stream
  // that is read slowly, so that its bytes are not held as those of unary calls.
  // Drops the request that waits for room, if the stream takes no more.
  void DropLater();
  void GivePlaceOfFront();
  void DropFront();
  void Drop(Waiting waiting);
  void End(Waiting waiting);

  ServiceContext& services_;
  grpc::CallbackServerContext* context_ = nullptr;
  std::string message_client_;
  std::string connection_;
  CallState whole_;      // counts a stream that ended in order without a request as one call
  grpc::ByteBuffer in_;  // the read in flight
  // Of whoever takes a request, one at a time:
  AnswerRoom::PlacePtr place_;  // of the request that is taken again
  std::string later_client_;    // of the request that found no room,
  int64_t later_bytes_ = 0;     // and what its answer takes

  std::mutex mutex_;  // guards all below
  // Answers to write; the first is the write in flight while writing_.
  std::deque<Waiting> waiting_;
  size_t waiting_bytes_ = 0;
  std::map<uint64_t, Waiting> early_;  // until their turn, by index
  uint64_t next_index_ = 0;
  std::vector<std::function<void()>> written_;  // to be called
  int32_t outstanding_ = 0;                     // requests taken whose answers are not written
  bool any_taken_ = false;
  bool reading_ = false;    // a read is in flight, or its request is being taken or waits for room
  bool is_later_ = false;   // the request waits for room
  int starting_reads_ = 0;  // threads that are about to put a read in flight
  bool writing_ = false;
  bool reads_done_ = false;
  bool broken_ = false;  // the client takes no more
  bool finished_ = false;
  // OnLate is called, or is about to be: whichever comes last of it and OnDone deletes the stream.
  bool is_late_ = false, late_is_over_ = false, done_ = false;
  std::optional<grpc::Status> error_;  // the stream ends with it when all before it is written
};

}  // namespace beamline
