// One RPC in flight. A call uses one completion queue, whose single thread runs its events.
#pragma once

#include <grpcpp/client_context.h>
#include <grpcpp/completion_queue.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "beamline/v1/inference.grpc.pb.h"
#include "loadtest/report/record.h"
#include "loadtest/workload/answer.h"
#include "loadtest/workload/request_factory.h"

namespace beamline::loadtest {

// The tag type of completion queues: the object that handles the event.
class EventHandler {
 public:
  virtual ~EventHandler() = default;
  virtual void OnEvent(bool ok) = 0;
};

// A clock that starts at 0 at the run's start.
class RunClock {
 public:
  using Steady = std::chrono::steady_clock;

  std::chrono::nanoseconds Now() const { return Steady::now() - start_; }
  Steady::time_point At(std::chrono::nanoseconds time) const { return start_ + time; }

 private:
  Steady::time_point start_ = Steady::now();
};

class Call;

class CallObserver {
 public:
  virtual ~CallObserver() = default;
  // Called at the call's last event; the observer destroys the call.
  virtual void OnDone(Call* call) = 0;
};

class Call : public EventHandler {
 public:
  Call(Request request, const RunClock& clock, CallObserver& observer);

  // REQUIRES: called once. timeout: used if the request has no shorter deadline of its own.
  void Start(std::chrono::nanoseconds intended, std::chrono::milliseconds timeout,
             v1::Inference::Stub& stub, grpc::CompletionQueue& queue);
  // Sets the client id that is sent to the server. Call it before Start.
  void SetClient(const std::string& client);
  // May be called at any time on any thread.
  void Cancel();
  bool was_cancelled() const { return was_cancelled_; }

  const Request& request() const { return request_; }
  // Complete when the observer is called.
  const grpc::Status& status() const { return status_; }
  const Answer& answer() const { return answer_; }
  RequestRecord& record() { return record_; }

 protected:
  virtual void Launch(v1::Inference::Stub& stub, grpc::CompletionQueue& queue) = 0;

  // Records the arrival of the message last appended to the answer, if it had tokens.
  void NoteTokens();
  // Called after the last event; may destroy the call.
  void Done();

  grpc::ClientContext context_;
  grpc::Status status_;
  Answer answer_;

 private:
  const Request request_;
  const RunClock& clock_;
  CallObserver& observer_;
  RequestRecord record_;
  size_t num_tokens_ = 0;  // in the answer so far
  std::atomic<bool> was_cancelled_ = false;
};

std::unique_ptr<Call> MakeCall(Request request, const RunClock& clock, CallObserver& observer);

}  // namespace beamline::loadtest
