// Asynchronous calls: the attempts at one, one after the other, and the calls of a client. No
// thread waits: gRPC's callbacks and timers move a call on. Locks of this file are held around
// single values only, never while gRPC or a caller's function is called. Internal to the client.
//
// The last reference to a connection must not be dropped on a thread of gRPC's callbacks: the
// connection's end waits for that thread. Stubs and contexts of calls are such references, so a
// call drops them before it leaves AsyncCalls, and whoever destroys the stubs waits for that.
#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "absl/status/status.h"
#include "client/retry.h"
#include "grpcpp/alarm.h"
#include "grpcpp/grpcpp.h"

namespace beamline {

// Of one client.
class AsyncCalls {
 public:
  void Add(const std::shared_ptr<AsyncAttempts>& call);
  // The call's function has heard and is gone.
  void Remove(const AsyncAttempts* call);
  // Cancels these calls and all that come later.
  void CancelAll();
  void WaitUntilNone();

 private:
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::unordered_map<const AsyncAttempts*, std::shared_ptr<AsyncAttempts>> calls_;
  bool is_closed_ = false;
};

// While a function of a caller runs on this thread. A thread of gRPC's must not wait for others of
// them there.
class CallerScope {
 public:
  CallerScope() { ++depth_; }
  ~CallerScope() { --depth_; }
  CallerScope(const CallerScope&) = delete;
  CallerScope& operator=(const CallerScope&) = delete;

  static bool IsInside() { return depth_ > 0; }

 private:
  static thread_local int depth_;
};

class AsyncAttempts : public std::enable_shared_from_this<AsyncAttempts> {
 public:
  AsyncAttempts(const RetryPolicy& policy, std::chrono::milliseconds timeout,
                std::shared_ptr<AsyncCalls> calls)
      : attempts_(policy, timeout), calls_(std::move(calls)) {}
  virtual ~AsyncAttempts() = default;
  AsyncAttempts(const AsyncAttempts&) = delete;
  AsyncAttempts& operator=(const AsyncAttempts&) = delete;

  // Begins the first attempt.
  void Begin() { BeginAttempt(); }
  void Cancel();

 protected:
  // Begins one attempt, which keeps this object and tells AttemptEnded() of its end. The context
  // lasts until then.
  virtual void Attempt(grpc::ClientContext& context) = 0;
  // Tells the caller; afterwards nothing of the caller's and no stub is held any more.
  virtual void Deliver(const absl::Status& status) = 0;

  // may_retry: nothing of the answer came.
  void AttemptEnded(absl::Status status, bool may_retry);
  bool is_cancelled() const;

 private:
  void BeginAttempt();
  // These tell whether the call was cancelled.
  bool DropContext();
  bool DropAlarm();
  void WaitForNext(std::chrono::milliseconds delay);
  void WaitIsOver();
  void Finish(const absl::Status& status);

  Attempts attempts_;
  const std::shared_ptr<AsyncCalls> calls_;

  mutable std::mutex mutex_;  // guards what follows
  bool is_cancelled_ = false;
  std::shared_ptr<grpc::ClientContext> context_;  // of the attempt that runs
  std::shared_ptr<grpc::Alarm> alarm_;            // of the wait for the next one
  bool is_alarm_set_ = false;
};

}  // namespace beamline
