// Asynchronous calls: the successive attempts of one call, and the set of a client's calls. No
// thread waits: gRPC's callbacks and timers drive a call. Locks of this file guard single values.
// They are never held while gRPC or a caller's function runs. Internal to the client.
//
// The last reference to a connection must not be dropped on a thread of gRPC's callbacks, because
// the connection's destruction waits for that thread. Stubs and call contexts hold such references.
// So a call drops them before it leaves AsyncCalls, and the owner of the stubs waits for that
// before it destroys them.
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

// The unfinished calls of one client. Thread-safe.
class AsyncCalls {
 public:
  void Add(const std::shared_ptr<AsyncAttempts>& call);
  // The call's callback has run and is destroyed.
  void Remove(const AsyncAttempts* call);
  // Cancels these calls and all later ones.
  void CancelAll();
  void WaitUntilNone();

 private:
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::unordered_map<const AsyncAttempts*, std::shared_ptr<AsyncAttempts>> calls_;
  bool is_closed_ = false;
};

// Exists while a caller's function runs on this thread. This may be one of gRPC's threads, which
// must not wait for other callbacks.
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

  // Starts the first attempt.
  void Begin() { BeginAttempt(); }
  void Cancel();

 protected:
  // Starts one attempt. The attempt keeps this object alive and calls AttemptEnded() when it ends.
  // The context lives until then.
  virtual void Attempt(grpc::ClientContext& context) = 0;
  // Calls the caller's function. Afterwards the call holds no stub and nothing of the caller's.
  virtual void Deliver(const absl::Status& status) = 0;

  // may_retry: no part of the answer was received.
  void AttemptEnded(absl::Status status, bool may_retry);
  bool is_cancelled() const;

 private:
  void BeginAttempt();
  // Both return whether the call was cancelled.
  bool DropContext();
  bool DropAlarm();
  void WaitForNext(std::chrono::milliseconds delay);
  void WaitIsOver();
  void Finish(const absl::Status& status);

  Attempts attempts_;
  const std::shared_ptr<AsyncCalls> calls_;

  mutable std::mutex mutex_;  // guards what follows
  bool is_cancelled_ = false;
  std::shared_ptr<grpc::ClientContext> context_;  // of the running attempt
  std::shared_ptr<grpc::Alarm> alarm_;            // of the wait before the next attempt
  bool is_alarm_set_ = false;
};

}  // namespace beamline
