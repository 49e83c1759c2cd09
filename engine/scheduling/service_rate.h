// Measures how fast a replica serves requests. Used to estimate a request's waiting time and its
// own duration (docs/decisions/0026-admission.md). One thread adds, any thread reads; no clock of
// its own.
//
// There is no estimate until enough was measured, and an estimate expires with its measurements. So
// a wrong estimate does not keep requests out for long.
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
    int64_t served = 0;         // part of its requests' cost: computed, or no longer needed
    int64_t unneeded = 0;       // part of `served` that its answers did not need
    int32_t answers = 0;        // requests that it completed
    int64_t answered_cost = 0;  // total cost of these
    bool left_waiting = false;  // there was no room for all waiting requests
  };
  void AddStep(const Step& step, Clock::time_point now);
  // Sets the expectation from the steps so far: tokens per second while requests wait, and the
  // seconds of a step when the waiting requests run too. 0: unknown.
  void Expect(double tokens_per_second, double step_seconds) {
    const double cost = CostOfToken();
    expected_.store(tokens_per_second * cost, std::memory_order_relaxed);
    expected_step_seconds_.store(cost > 0 ? step_seconds / cost : 0, std::memory_order_relaxed);
  }
  // A request that may take `steps` steps took `seconds` from its first step to its whole answer.
  void AddAnswer(int64_t steps, double seconds, Clock::time_point now);

  // Cost served per second while requests wait. nullopt: too little was measured recently, or no
  // request had to wait.
  std::optional<double> cost_per_second(Clock::time_point now) const;
  // The same before any request had to wait, from Expect. nullopt when Expect does not know it, or
  // fewer than kLeastAnswers answers show how much of their cost requests do not need.
  std::optional<double> expected_cost_per_second() const {
    const double expected = expected_.load(std::memory_order_relaxed);
    return expected > 0 ? std::optional(expected) : std::nullopt;
  }
  // Requests that cost more than this are long: twice the cost of the answered ones. The largest
  // number until enough was measured.
  int64_t LongCost() const { return long_cost_.load(std::memory_order_relaxed); }
  // Estimated seconds from the first step to the answer for a request that may take `steps` steps;
  // 0 while unknown. Decreases while no answer confirms it.
  double SecondsFor(int64_t steps, Clock::time_point now) const;
  // The same for a request that begins now. Uses the expectation from the steps if it is larger,
  // for example when more sequences will run.
  double SecondsForNew(int64_t steps, Clock::time_point now) const {
    const double expected = expected_step_seconds_.load(std::memory_order_relaxed);
    return std::max(SecondsFor(steps, now), static_cast<double>(steps) * expected);
  }

  // The rate is used after this many answers, or this many seconds of steps. (How much of its cost
  // a request does not need is only known with its answer. Before that, the share of earlier
  // answers is assumed.)
  static constexpr int32_t kLeastAnswers = 8;
  static constexpr double kLeastSeconds = 1;
  // Minimum time for which a rate stays valid without a step that left requests waiting, and the
  // half-life of an answer's time.
  static constexpr std::chrono::nanoseconds kHolds = std::chrono::seconds(1);

 private:
  static constexpr double kMemorySeconds = 2;  // of steps
  static constexpr double kKept = 0.95;        // of earlier answers, at each answer

  double Rate() const;
  // Cost of the answered requests divided by what they computed of it; 0: unknown.
  double CostOfToken() const {
    const bool is_known = seen_answers_ >= kLeastAnswers && answered_computed_ > 0;
    return is_known ? answered_cost_ / answered_computed_ : 0;
  }

  double served_ = 0;
  double computed_ = 0;
  double seconds_ = 0;
  double answered_ = 0;
  int32_t answers_ = 0;       // in the steps that the rate is measured from
  int32_t seen_answers_ = 0;  // in all steps
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
