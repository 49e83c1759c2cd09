// Which calls the server takes on: a bounded number at once, none while it drains. Decided before
// any work is spent on a call.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "base/shared_limit.h"

namespace beamline {

// Thread safe.
class Admission {
 public:
  // Held by an admitted call until it is done. The admission outlives it.
  class Permit {
   public:
    Permit(Permit&& other) noexcept
        : admission_(std::exchange(other.admission_, nullptr)),
          client_(std::move(other.client_)),
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
      if (num_places_ > 0) admission_->Give(client_, std::exchange(num_places_, 0));
    }

   private:
    friend class Admission;
    Permit(Admission& admission, const std::string& client, int32_t num_places)
        : admission_(&admission),
          client_(client),
          num_places_(num_places),
          num_calls_(num_places) {}

    Admission* admission_;
    std::string client_;
    int32_t num_places_;
    int32_t num_calls_;
  };

  explicit Admission(int32_t max_concurrent_requests) : limit_(max_concurrent_requests) {}

  int32_t limit() const { return limit_; }

  // So many places for the client, or none: UNAVAILABLE while draining; RESOURCE_EXHAUSTED at the
  // limit, of which the last places are for clients that have few (SharedLimit).
  absl::StatusOr<Permit> Admit(const std::string& client, int32_t num_places = 1);
  void StartDraining() { draining_ = true; }
  bool draining() const { return draining_; }
  // Admitted and not done.
  int32_t running() const { return running_; }

 private:
  void Give(const std::string& client, int32_t num_places) {
    std::lock_guard lock(mutex_);
    places_.Give(client, num_places);
  }

  const int32_t limit_;
  std::mutex mutex_;
  ClientCounts places_;  // guarded by mutex_
  std::atomic<int32_t> running_{0};
  std::atomic<bool> draining_{false};
};

}  // namespace beamline
