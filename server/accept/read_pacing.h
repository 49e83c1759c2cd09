// Has gRPC's pollers read what has come in bursts while a server refuses calls by the thousand.
//
// A poller that reads each call as it comes is woken for each, interrupts who computes, and finds
// its caches cold: beside a model that computes on the same core a call costs several times what it
// does in a row of calls. gRPC offers no place to wait in, so this program has an epoll_wait of its
// own, which gRPC's library finds in place of the C library's: a paced thread waits there for more
// to come before it looks (docs/decisions/0026-admission.md).
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>

namespace beamline {

// When threads look for what has come. Any thread; no clock of its own.
class ReadPace {
 public:
  using Clock = std::chrono::steady_clock;

  // Between looks that are paced: what comes waits half of it in the mean.
  static constexpr std::chrono::microseconds kPeriod{2000};
  // From the last call that says so.
  static constexpr std::chrono::milliseconds kLasts{5};

  // From `now` on for kLasts they look once in kPeriod.
  void Extend(Clock::time_point now) { until_.store(now + kLasts, std::memory_order_relaxed); }
  // How long to wait before one looks; zero: not at all.
  Clock::duration Wait(Clock::time_point now) const {
    const Clock::time_point next = looked_.load(std::memory_order_relaxed) + kPeriod;
    if (now >= until_.load(std::memory_order_relaxed)) return {};
    return std::clamp<Clock::duration>(next - now, {}, kPeriod);
  }
  // One has looked, and found something.
  void Look(Clock::time_point now) { looked_.store(now, std::memory_order_relaxed); }

 private:
  std::atomic<Clock::time_point> until_ = Clock::time_point();
  std::atomic<Clock::time_point> looked_ = Clock::time_point();
};

// The calling thread, which reads calls, has little to do for each of them. Until it has not been
// called for kHurries, the thread has short slices: a scheduler that knows them (Linux 6.12 and
// later) lets it run before who computes, and not at the end of their slice.
void HurryReads(ReadPace::Clock::time_point now);
// The same, and for ReadPace::kLasts all that hurry are paced: calls come so often that they are
// worth waiting for.
void PaceReads(ReadPace::Clock::time_point now);

constexpr std::chrono::milliseconds kHurries{1000};

}  // namespace beamline
