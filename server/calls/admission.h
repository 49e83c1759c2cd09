// Admission control of calls: limits how many run at once, and refuses all while the server drains.
// Decides before any work is done for a call.
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
  // An admitted call holds it until it is done. The Admission outlives it.
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

    // Frees the slots early for other calls. The call still counts in running().
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

  // Takes `num_places` slots for the client, all or none. UNAVAILABLE while draining.
  // RESOURCE_EXHAUSTED at the limit, whose last slots are reserved for clients that have few
  // (SharedLimit).
  absl::StatusOr<Permit> Admit(const std::string& client, int32_t num_places = 1);
  void StartDraining() { draining_ = true; }
  bool draining() const { return draining_; }
  // Calls that are admitted and not done.
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
