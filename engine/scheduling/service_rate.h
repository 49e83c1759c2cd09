// How fast a replica serves requests, as its steps and answers show: what a request's wait and its
// own time are told by (docs/decisions/0026-admission.md). One thread adds, any reads; no clock of
// its own.
//
// Nothing is known until enough was measured, and what is known does not outlive what it was
// measured by: an estimate that is wrong keeps nobody out for long.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <limits>
#include <optional>

#include "engine/api/request.h"

namespace beamline {

class ServiceRate {
 public:
  struct Step {
    double seconds = 0;
    int64_t served = 0;         // of the cost of its requests: computed, or not needed any more
    int64_t unneeded = 0;       // of that, what its answers did not need
    int32_t answers = 0;        // that it completed
    int64_t answered_cost = 0;  // of them
    bool left_waiting = false;  // there was no room for all that waited
  };
  void AddStep(const Step& step, Clock::time_point now);
  // What the steps so far let expect: tokens a second while requests wait, and the seconds of a
  // step when those that wait run too. 0: they do not tell.
  void Expect(double tokens_per_second, double step_seconds) {
    const double cost = CostOfToken();
    expected_.store(tokens_per_second * cost, std::memory_order_relaxed);
    expected_step_seconds_.store(cost > 0 ? step_seconds / cost : 0, std::memory_order_relaxed);
  }
  // From its first step to its whole answer, a request that may take `steps` took this long.
  void AddAnswer(int64_t steps, double seconds, Clock::time_point now);

  // The cost that is served in a second while requests wait. Nullopt: too little was measured
  // lately, or nothing had to wait.
  std::optional<double> cost_per_second(Clock::time_point now) const;
  // The same before anything had to wait, as Expect says it: nullopt when it does not, or when less
  // than kLeastAnswers answers tell what requests do not need of their cost.
  std::optional<double> expected_cost_per_second() const {
    const double expected = expected_.load(std::memory_order_relaxed);
    return expected > 0 ? std::optional(expected) : std::nullopt;
  }
  // A request that costs more is a long one: twice what the answered ones cost. The largest number
  // while too little was measured.
  int64_t LongCost() const { return long_cost_.load(std::memory_order_relaxed); }
  // What a request that may take `steps` takes, about, from its first step to its answer; 0 while
  // nothing is known. Falls while no answer confirms it.
  double SecondsFor(int64_t steps, Clock::time_point now) const;
  // The same of one that begins now: what the steps let expect where that is more, as when the
  // sequences that run become more.
  double SecondsForNew(int64_t steps, Clock::time_point now) const {
    const double expected = expected_step_seconds_.load(std::memory_order_relaxed);
    return std::max(SecondsFor(steps, now), static_cast<double>(steps) * expected);
  }

  // Answers that must have been seen before the rate is believed, or seconds of steps. (What
  // requests do not need of their cost shows when they are answered. Before, it is taken to be what
  // earlier answers did not need.)
  static constexpr int32_t kLeastAnswers = 8;
  static constexpr double kLeastSeconds = 1;
  // How long a rate holds without a step that left requests waiting, at least, and an answer's time
  // until it counts half.
  static constexpr std::chrono::nanoseconds kHolds = std::chrono::seconds(1);

 private:
  static constexpr double kMemorySeconds = 2;  // of steps
  static constexpr double kKept = 0.95;        // of what was, at each answer

  double Rate() const;
  // Cost of the answered ones over what they computed of it; 0: not known.
  double CostOfToken() const {
    const bool is_known = seen_answers_ >= kLeastAnswers && answered_computed_ > 0;
    return is_known ? answered_cost_ / answered_computed_ : 0;
  }

  double served_ = 0;
  double computed_ = 0;
  double seconds_ = 0;
  double answered_ = 0;
  int32_t answers_ = 0;       // of the steps that the rate is measured by
  int32_t seen_answers_ = 0;  // of all
  double answered_cost_ = 0;
  double answered_computed_ = 0;
  double answer_products_ = 0;
  double answer_squares_ = 0;

  std::atomic<double> cost_per_second_ = 0;        // 0: unknown
  std::atomic<double> expected_ = 0;               // 0: unknown
  std::atomic<double> expected_step_seconds_ = 0;  // 0: unknown
  std::atomic<Clock::time_point> holds_until_ = Clock::time_point::min();
  std::atomic<int64_t> long_cost_ = std::numeric_limits<int64_t>::max();
  std::atomic<double> seconds_per_step_ = 0;  // 0: unknown
  std::atomic<Clock::time_point> last_answer_ = Clock::time_point::min();
};

}  // namespace beamline
