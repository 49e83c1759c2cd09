// Which calls the server takes on: a bounded number at once, none while it drains. Decided before
// any work is spent on a call.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

#include "absl/status/statusor.h"

namespace beamline {

class Admission {
 public:
  // Held by an admitted call until it is done. The admission outlives it.
  class Permit {
   public:
    explicit Permit(Admission& admission) : admission_(&admission) {}
    Permit(Permit&& other) noexcept : admission_(std::exchange(other.admission_, nullptr)) {}
    Permit& operator=(Permit&&) = delete;
    ~Permit() {
      if (admission_ != nullptr) admission_->running_.fetch_sub(1, std::memory_order_relaxed);
    }

   private:
    Admission* admission_;
  };

  explicit Admission(int32_t max_concurrent_requests) : limit_(max_concurrent_requests) {}

  int32_t limit() const { return limit_; }

  // UNAVAILABLE while draining; RESOURCE_EXHAUSTED at the limit.
  absl::StatusOr<Permit> Admit();
  void StartDraining() { draining_ = true; }
  bool draining() const { return draining_; }
  int32_t running() const { return running_; }

 private:
  const int32_t limit_;
  std::atomic<int32_t> running_{0};
  std::atomic<bool> draining_{false};
};

}  // namespace beamline
