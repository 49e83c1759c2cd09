// While calls are refused by hundreds a second, one of gRPC's pollers rests. Two of them hand each
// event to each other, which is right for calls that take their threads' time and costs a refused
// one, that takes none, as much again; where all cores compute, requests pay for that
// (docs/decisions/0026-admission.md).
#pragma once

#include <atomic>
#include <chrono>

#include "engine/api/request.h"

namespace beamline {

// Any thread.
class PollerRest {
 public:
  // To be called where a refused call is over, by a thread that holds nothing: sleeps for kRest
  // where that thread is one of gRPC's pollers, refusals are dense and nobody rests yet. Of the
  // two pollers or more that there are one goes on.
  void AfterRefusal(Clock::time_point now);

  // The decision: whether a poller that ends a refused call now is to rest, and to call End then.
  bool Begin(Clock::time_point now) {
    const Clock::time_point last = last_refusal_.exchange(now, std::memory_order_relaxed);
    return now - last <= kDense && !resting_.exchange(true, std::memory_order_relaxed);
  }
  void End() { resting_.store(false, std::memory_order_relaxed); }

  // Refusals that are no further apart are dense.
  static constexpr std::chrono::milliseconds kDense{5};
  static constexpr std::chrono::milliseconds kRest{100};

 private:
  std::atomic<Clock::time_point> last_refusal_ = Clock::time_point();
  std::atomic<bool> resting_ = false;
};

}  // namespace beamline
