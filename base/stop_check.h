// Stops long work early once its result is not needed: after a deadline, a cancellation, or at the
// server's shutdown. The caller puts a check on its thread's stack; long loops in the code that it
// calls query it now and then. It belongs to the thread instead of being an argument, so that
// tokenizers and templates do not depend on requests.
#pragma once

#include <utility>

#include "absl/status/status.h"

namespace beamline {

class StopCheck {
 public:
  StopCheck(const StopCheck&) = delete;
  StopCheck& operator=(const StopCheck&) = delete;

  // The first reason to stop among this thread's checks, innermost first; OK: continue. It runs all
  // checks, so call it about once per millisecond.
  static absl::Status Now() {
    for (const StopCheck* one = innermost_; one != nullptr; one = one->outer_) {
      absl::Status status = one->Ask();
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }

 protected:
  StopCheck() : outer_(std::exchange(innermost_, this)) {}
  ~StopCheck() { innermost_ = outer_; }

 private:
  virtual absl::Status Ask() const = 0;

  inline static thread_local const StopCheck* innermost_ = nullptr;
  const StopCheck* const outer_;
};

// A check that is active from construction to destruction, both on one thread. `ask` returns why
// this thread's work must stop, or OK.
template <typename AskFunction>
class StopWhen final : public StopCheck {
 public:
  explicit StopWhen(AskFunction ask) : ask_(std::move(ask)) {}

 private:
  absl::Status Ask() const override { return ask_(); }

  const AskFunction ask_;
};

}  // namespace beamline
