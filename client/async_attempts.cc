#include "client/async_attempts.h"

#include <utility>
#include <vector>

#include "client/grpc_status.h"

namespace beamline {

thread_local int CallerScope::depth_ = 0;

void AsyncCalls::Add(const std::shared_ptr<AsyncAttempts>& call) {
  bool is_closed = false;
  {
    const std::lock_guard lock(mutex_);
    calls_.emplace(call.get(), call);
    is_closed = is_closed_;
  }
  if (is_closed) call->Cancel();
}

void AsyncCalls::Remove(const AsyncAttempts* call) {
  std::shared_ptr<AsyncAttempts> removed;  // destroyed outside of the lock
  const std::lock_guard lock(mutex_);
  const auto found = calls_.find(call);
  removed = std::move(found->second);
  calls_.erase(found);
  if (calls_.empty()) changed_.notify_all();
}

void AsyncCalls::CancelAll() {
  std::vector<std::shared_ptr<AsyncAttempts>> calls;
  {
    const std::lock_guard lock(mutex_);
    is_closed_ = true;
    for (const auto& [key, call] : calls_) calls.push_back(call);
  }
  for (const auto& call : calls) call->Cancel();
}

void AsyncCalls::WaitUntilNone() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return calls_.empty(); });
}

bool AsyncAttempts::is_cancelled() const {
  const std::lock_guard lock(mutex_);
  return is_cancelled_;
}

void AsyncAttempts::Cancel() {
  std::shared_ptr<grpc::ClientContext> context;
  std::shared_ptr<grpc::Alarm> alarm;
  {
    const std::lock_guard lock(mutex_);
    is_cancelled_ = true;
    context = context_;
    // If the alarm is still being set, the thread that sets it cancels it.
    if (is_alarm_set_) alarm = alarm_;
  }
  if (context != nullptr) context->TryCancel();
  if (alarm != nullptr) alarm->Cancel();
}

void AsyncAttempts::BeginAttempt() {
  auto made = std::make_shared<grpc::ClientContext>();
  grpc::ClientContext& context = *made;  // valid until the attempt ends
  attempts_.SetDeadline(context);
  bool is_cancelled = false;
  {
    const std::lock_guard lock(mutex_);
    context_ = std::move(made);
    is_cancelled = is_cancelled_;
  }
  if (is_cancelled) context.TryCancel();  // gRPC's callback then ends the attempt at once
  Attempt(context);
}

bool AsyncAttempts::DropContext() {
  std::shared_ptr<grpc::ClientContext> context;  // destroyed outside of the lock
  const std::lock_guard lock(mutex_);
  context = std::exchange(context_, nullptr);
  return is_cancelled_;
}

bool AsyncAttempts::DropAlarm() {
  std::shared_ptr<grpc::Alarm> alarm;  // destroyed outside of the lock
  const std::lock_guard lock(mutex_);
  alarm = std::exchange(alarm_, nullptr);
  is_alarm_set_ = false;
  return is_cancelled_;
}

void AsyncAttempts::AttemptEnded(absl::Status status, bool may_retry) {
  const bool is_cancelled = DropContext();
  if (status.ok()) return Finish(status);
  if (is_cancelled) return Finish(absl::CancelledError("cancelled by the caller"));
  const auto delay = may_retry ? attempts_.DelayAfter(status) : std::nullopt;
  if (!delay.has_value()) return Finish(status);
  WaitForNext(*delay);
}

void AsyncAttempts::WaitForNext(std::chrono::milliseconds delay) {
  const auto alarm = std::make_shared<grpc::Alarm>();
  {
    const std::lock_guard lock(mutex_);
    alarm_ = alarm;
    is_alarm_set_ = false;
  }
  alarm->Set(std::chrono::system_clock::now() + delay,
             [self = shared_from_this()](bool) { self->WaitIsOver(); });
  bool is_cancelled = false;
  {
    const std::lock_guard lock(mutex_);
    if (alarm_ != alarm) return;  // it has fired already
    is_alarm_set_ = true;
    is_cancelled = is_cancelled_;
  }
  if (is_cancelled) alarm->Cancel();
}

void AsyncAttempts::WaitIsOver() {
  if (DropAlarm()) return Finish(absl::CancelledError("cancelled by the caller"));
  BeginAttempt();
}

void AsyncAttempts::Finish(const absl::Status& status) {
  {
    const CallerScope scope;
    Deliver(status);
  }
  calls_->Remove(this);
}

}  // namespace beamline
