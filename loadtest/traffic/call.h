// One RPC on its way. A call lives on one completion queue whose single thread runs its events.
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

// What completion queues carry as tags: the object to tell of the event.
class EventHandler {
 public:
  virtual ~EventHandler() = default;
  virtual void OnEvent(bool ok) = 0;
};

// Times of a run count from its start.
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
  // The call's last event; the observer destroys the call.
  virtual void OnDone(Call* call) = 0;
};

class Call : public EventHandler {
 public:
  Call(Request request, const RunClock& clock, CallObserver& observer);

  // REQUIRES: called once. timeout: when the request has no shorter deadline of its own.
  void Start(std::chrono::nanoseconds intended, std::chrono::milliseconds timeout,
             v1::Inference::Stub& stub, grpc::CompletionQueue& queue);
  // Who the server is told sends it; before Start.
  void SetClient(const std::string& client);
  // Any thread, any time.
  void Cancel();
  bool was_cancelled() const { return was_cancelled_; }

  const Request& request() const { return request_; }
  // Complete once the observer was told.
  const grpc::Status& status() const { return status_; }
  const Answer& answer() const { return answer_; }
  RequestRecord& record() { return record_; }

 protected:
  virtual void Launch(v1::Inference::Stub& stub, grpc::CompletionQueue& queue) = 0;

  // Notes the arrival of the message last appended to the answer, if it brought tokens.
  void NoteTokens();
  // After the last event; the call may be gone afterwards.
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
