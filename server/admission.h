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
    Permit(Admission& admission, int32_t num_places)
        : admission_(&admission), num_places_(num_places), num_calls_(num_places) {}
    Permit(Permit&& other) noexcept
        : admission_(std::exchange(other.admission_, nullptr)),
          num_places_(other.num_places_),
          num_calls_(other.num_calls_) {}
    Permit& operator=(Permit&&) = delete;
    ~Permit() {
      if (admission_ == nullptr) return;
      GivePlaces();
      admission_->running_.fetch_sub(num_calls_, std::memory_order_relaxed);
    }

    // Before the end: others may come, while what is held still counts among those that run.
    void GivePlaces() {
      admission_->taken_.fetch_sub(std::exchange(num_places_, 0), std::memory_order_relaxed);
    }

   private:
    Admission* admission_;
    int32_t num_places_;
    int32_t num_calls_;
  };

  explicit Admission(int32_t max_concurrent_requests) : limit_(max_concurrent_requests) {}

  int32_t limit() const { return limit_; }

  // So many places, or none: UNAVAILABLE while draining; RESOURCE_EXHAUSTED at the limit.
  absl::StatusOr<Permit> Admit(int32_t num_places = 1);
  void StartDraining() { draining_ = true; }
  bool draining() const { return draining_; }
  // Admitted and not done.
  int32_t running() const { return running_; }

 private:
  const int32_t limit_;
  std::atomic<int32_t> taken_{0};  // places
  std::atomic<int32_t> running_{0};
  std::atomic<bool> draining_{false};
};

}  // namespace beamline
