// Ends long work early once its result is not wanted: after a deadline, a cancellation, or at the
// end of the server. The caller puts a check on its thread's stack; long loops far below ask it now
// and then. It belongs to the thread instead of being an argument, so that tokenizers and templates
// do not need to know about requests.
#pragma once

#include <utility>

#include "absl/status/status.h"

namespace beamline {

class StopCheck {
 public:
  StopCheck(const StopCheck&) = delete;
  StopCheck& operator=(const StopCheck&) = delete;

  // The first reason to stop of this thread's checks, the innermost first; OK: go on. Costs what
  // the checks cost: call it about once a millisecond.
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

// Holds from its construction to its destruction, both on one thread. `ask` returns why the work of
// this thread is to stop, OK while it is to go on.
template <typename AskFunction>
class StopWhen final : public StopCheck {
 public:
  explicit StopWhen(AskFunction ask) : ask_(std::move(ask)) {}

 private:
  absl::Status Ask() const override { return ask_(); }

  const AskFunction ask_;
};

}  // namespace beamline
