// Reactor of a bidirectional stream of requests and answers. GenerateMany, EncodeMany and the
// streams of other protocols share it; they add their messages (many_call.h, server/protocols/).
//
// At most one read and one write are in flight. The stream stops reading in three cases:
// `max_outstanding` requests have no written answer, kMostWaitingBytes of answers wait, or there is
// no room for the next answer (answer_room.h). So a client that sends without reading fills its own
// connection only. The stream ends if its client keeps too many bytes of incomplete messages
// (message_budget.h).
//
// The call ends when the client has sent its last request and every answer is written. If the
// client has gone, it ends when all running requests have ended.
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
  // Starts to read. Call once, within the service's method. `identity`: the caller's.
  void Start(grpc::CallbackServerContext& context, const std::string& identity);

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

 protected:
  ~ManyStream() override = default;

  ServiceContext& services() { return services_; }
  // Called with each request. The subclass must call Answer or AnswerInOrder once for it, now or
  // later, on any thread. Only one Take runs at a time.
  virtual void Take(const grpc::ByteBuffer& request) = 0;
  // Call within Take for each request, before it is submitted.
  void UseRoom(CallState& state);
  // Call within Take for a request that was not submitted. True if its answer had no room: Take is
  // called with it again when there is room. The subclass must drop all its state then.
  bool IsTakenLater(const CallState& state);
  // Cancels all running requests. May be called more than once, also while Take runs.
  virtual void CancelAll() = 0;
  // Any thread. Writes the answer, then ends `state`. The subclass must not use the stream for that
  // request afterwards.
  void Answer(grpc::ByteBuffer answer, std::unique_ptr<CallState> state);
  // The same, but writes answers in the order of `index`, which starts at 0. A stream uses either
  // Answer or AnswerInOrder. With `error` no answer is written: the stream ends with it, later
  // requests are cancelled, and their answers are dropped.
  void AnswerInOrder(uint64_t index, grpc::ByteBuffer answer, std::unique_ptr<CallState> state,
                     std::optional<grpc::Status> error = std::nullopt);
  // Any thread. Writes a part of an answer; Answer writes the end later. `written` is called once
  // the part is written or dropped. It must not block, and must own what it uses.
  void AnswerPart(grpc::ByteBuffer part, std::function<void()> written);

 private:
  void OnPlace() override {}  // streams have no slots
  void OnLate(MessageBudget::Late why) override;

  // The stream stops reading while this many bytes of answers wait.
  static constexpr size_t kMostWaitingBytes = 4 << 20;

  struct Waiting {
    grpc::ByteBuffer answer;
    std::unique_ptr<CallState> state;  // null: a part
    std::function<void()> written;     // for a part
    std::optional<grpc::Status> error;
    size_t bytes = 0;  // of `answer`
  };

  // Call after Take has returned.
  void EndTake();
  // Takes the request that waits for room, which there is now.
  void TakeNow(AnswerRoom::PlacePtr place);
  // Starts every operation that can start, and finishes when nothing is left. `this` may be deleted
  // after it.
  void Advance(std::unique_lock<std::mutex> lock);
  // REQUIRE mutex_.
  void PutBack(Waiting waiting);
  // Drops the request that waits for room, if the stream takes no more requests.
  void DropLater();
  // Frees the slot of the front request before its small answer is written. A large answer keeps
  // its slot until it is written. Nothing ends a stream that is read slowly, so its bytes are not
  // held as those of unary calls.
  void GivePlaceOfFront();
  void DropFront();
  void Drop(Waiting waiting);
  void End(Waiting waiting);

  ServiceContext& services_;
  grpc::CallbackServerContext* context_ = nullptr;
  std::string message_client_;
  std::string connection_;
  CallState whole_;      // records a stream that ended normally without a request, as one call
  grpc::ByteBuffer in_;  // buffer of the read in flight
  // Used by the thread in Take only:
  AnswerRoom::PlacePtr place_;  // reservation for the request that is taken again
  std::string later_client_;    // of the request that found no room
  int64_t later_bytes_ = 0;     // size of its answer

  std::mutex mutex_;  // guards all below
  // Answers to write. The first is in flight while writing_.
  std::deque<Waiting> waiting_;
  size_t waiting_bytes_ = 0;
  std::map<uint64_t, Waiting> early_;  // answers out of order, by index
  uint64_t next_index_ = 0;
  std::vector<std::function<void()>> written_;  // callbacks to run
  int32_t outstanding_ = 0;                     // requests taken whose answers are not written
  bool any_taken_ = false;
  bool reading_ = false;    // a read is in flight, or its request is in Take or waits for room
  bool is_later_ = false;   // a request waits for room
  int starting_reads_ = 0;  // threads that are about to start a read
  bool writing_ = false;
  bool reads_done_ = false;
  bool broken_ = false;  // the client has gone
  bool finished_ = false;
  // OnLate was called or is about to be. The later of OnLate and OnDone deletes the stream.
  bool is_late_ = false, late_is_over_ = false, done_ = false;
  // The stream ends with it once all earlier answers are written.
  std::optional<grpc::Status> error_;
};

}  // namespace beamline
