// The reactor of a stream of requests and answers: what GenerateMany and EncodeMany have in common,
// without their messages (many_call.h).
//
// At most one read and one write are in flight. Reading stops while `max_outstanding` requests have
// no written answer, so a client that sends without reading fills its own connection and nothing
// else. The call ends when the client has sent its last request and every answer is written, or,
// once the client takes no more, when every request that runs has ended.
#pragma once

#include <deque>
#include <memory>
#include <mutex>

#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/server_callback.h"
#include "server/calls/call_state.h"

namespace beamline {

class ManyStream : public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  ManyStream(ServiceContext& services, Rpc rpc) : services_(services), whole_(services, rpc) {}
  // Begins to read; to be called once, within the service's method.
  void Start();

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

 protected:
  ~ManyStream() override = default;

  ServiceContext& services() { return services_; }
  // A request has come. It is owed one call of Answer: at once, or later from any thread.
  virtual void Take(const grpc::ByteBuffer& request) = 0;
  // Ends what runs as soon as possible. May be called more than once, also while Take runs.
  virtual void CancelAll() = 0;
  // Any thread. The request that `state` counts is over when its answer is written. The stream must
  // not be touched after it on behalf of that request.
  void Answer(grpc::ByteBuffer answer, std::unique_ptr<CallState> state);

 private:
  struct Waiting {
    grpc::ByteBuffer answer;
    std::unique_ptr<CallState> state;
  };

  // Starts what can be started now, and finishes when nothing is left. `this` may be gone after it.
  void Advance(std::unique_lock<std::mutex> lock);
  void DropFront();  // REQUIRES: mutex_

  ServiceContext& services_;
  CallState whole_;      // counts a stream that ended in order without a request as one call
  grpc::ByteBuffer in_;  // the read in flight

  std::mutex mutex_;  // guards all below
  // Answers to write; the first is the write in flight while writing_.
  std::deque<Waiting> waiting_;
  int32_t outstanding_ = 0;  // requests taken whose answers are not written
  bool any_taken_ = false;
  bool reading_ = false;  // a read is in flight, or its request is being taken
  bool writing_ = false;
  bool reads_done_ = false;
  bool broken_ = false;  // the client takes no more
  bool finished_ = false;
};

}  // namespace beamline
