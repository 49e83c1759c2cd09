// While calls are refused by hundreds a second, one of gRPC's pollers rests. Two of them hand each
// event to each other, which is right for calls that take their threads' time and costs a refused
// one, that takes none, as much again; where all cores compute, requests pay for that
// (docs/decisions/0026-admission.md).
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>

#include "engine/api/request.h"

namespace beamline {

// Any thread.
class PollerRest {
 public:
  // How often calls are refused.
  enum class Pace { kRare, kDense, kRapid };

  // To be called where a refused call is over, by a thread that holds nothing. Where that thread is
  // one of gRPC's pollers and refusals are dense it sleeps for kRest, unless another one does: of
  // the two pollers or more that there are one goes on, and reads in bursts where they are rapid
  // (server/accept/read_pacing.h).
  void AfterRefusal(Clock::time_point now);

  // The same without the rest, where the call is not over yet: its thread reads in bursts where
  // refusals are rapid. Whether they are dense, and the thread is a poller.
  bool PaceAfterRefusal(Clock::time_point now);

  // A call has been refused.
  Pace Count(Clock::time_point now) {
    const Clock::time_point last = last_refusal_.exchange(now, std::memory_order_relaxed);
    const std::chrono::duration<double> gap = std::clamp<Clock::duration>(now - last, {}, kDense);
    // Who counts between the two is left out, which the next ones make up for.
    const double mean = mean_gap_.load(std::memory_order_relaxed);
    const double next = mean + (gap.count() - mean) / kRemembered;
    mean_gap_.store(next, std::memory_order_relaxed);
    if (now - last > kDense) return Pace::kRare;
    return next <= Seconds(kRapid) ? Pace::kRapid : Pace::kDense;
  }
  // Whether a poller that ends a refused call, one of dense ones, is to rest, and to call End then.
  bool Begin() { return !resting_.exchange(true, std::memory_order_relaxed); }
  void End() { resting_.store(false, std::memory_order_relaxed); }

  // Refusals that are no further apart are dense.
  static constexpr std::chrono::milliseconds kDense{5};
  static constexpr std::chrono::milliseconds kRest{100};
  // Rapid, where so far apart in the mean: two in each of a paced poller's periods.
  static constexpr std::chrono::microseconds kRapid{1250};

 private:
  static constexpr double kRemembered = 16;  // refusals, of which the mean is

  static constexpr double Seconds(std::chrono::duration<double> time) { return time.count(); }

  std::atomic<Clock::time_point> last_refusal_ = Clock::time_point();
  std::atomic<double> mean_gap_ = Seconds(kDense);
  std::atomic<bool> resting_ = false;
};

}  // namespace beamline
