#include "engine/scheduling/service_rate.h"

#include <algorithm>
#include <cmath>

namespace beamline {
namespace {

double Seconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

}  // namespace

double ServiceRate::Rate() const {
  if (answers_ >= kLeastAnswers) return served_ / seconds_;
  return std::max(served_, computed_ * CostOfToken()) / seconds_;
}

void ServiceRate::AddStep(const Step& step, Clock::time_point now) {
  if (step.answers > 0) {
    seen_answers_ = std::min(seen_answers_ + step.answers, kLeastAnswers);
    const double kept = std::pow(kKept, step.answers);
    answered_cost_ = kept * answered_cost_ + static_cast<double>(step.answered_cost);
    answered_computed_ =
        kept * answered_computed_ + static_cast<double>(step.answered_cost - step.unneeded);
  }
  if (!step.left_waiting || step.seconds <= 0) return;
  if (now > holds_until_.load(std::memory_order_relaxed)) {
    served_ = computed_ = seconds_ = answered_ = 0;
    answers_ = 0;
    cost_per_second_.store(0, std::memory_order_relaxed);
  }
  // A step longer than the memory counts only as the full memory, so that later steps still matter.
  const double kept = std::exp(-step.seconds / kMemorySeconds);
  const double counted = kMemorySeconds * (1 - kept);
  served_ = kept * served_ + counted * static_cast<double>(step.served) / step.seconds;
  computed_ =
      kept * computed_ + counted * static_cast<double>(step.served - step.unneeded) / step.seconds;
  seconds_ = kept * seconds_ + counted;
  answered_ = kept * answered_ + counted * step.answers / step.seconds;
  answers_ = std::min(answers_ + step.answers, kLeastAnswers);
  // Long steps report later, so the rate is valid longer.
  const auto holds = std::max(
      kHolds, std::chrono::nanoseconds(std::chrono::duration_cast<std::chrono::nanoseconds>(
                  std::chrono::duration<double>(4 * step.seconds))));
  holds_until_.store(now + holds, std::memory_order_relaxed);
  if ((answers_ < kLeastAnswers && seconds_ < kLeastSeconds) || served_ <= 0) return;
  cost_per_second_.store(Rate(), std::memory_order_relaxed);
  if (answered_ > 0 && answers_ >= kLeastAnswers) {
    long_cost_.store(static_cast<int64_t>(2 * served_ / answered_), std::memory_order_relaxed);
  }
}

void ServiceRate::AddAnswer(int64_t steps, double seconds, Clock::time_point now) {
  const auto count = static_cast<double>(std::max<int64_t>(1, steps));
  answer_products_ = kKept * answer_products_ + count * seconds;
  answer_squares_ = kKept * answer_squares_ + count * count;
  seconds_per_step_.store(answer_products_ / answer_squares_, std::memory_order_relaxed);
  last_answer_.store(now, std::memory_order_relaxed);
}

std::optional<double> ServiceRate::cost_per_second(Clock::time_point now) const {
  const double rate = cost_per_second_.load(std::memory_order_relaxed);
  if (rate <= 0 || now > holds_until_.load(std::memory_order_relaxed)) return std::nullopt;
  return rate;
}

double ServiceRate::SecondsFor(int64_t steps, Clock::time_point now) const {
  const double per_step = seconds_per_step_.load(std::memory_order_relaxed);
  if (per_step <= 0) return 0;
  const double age = Seconds(now - last_answer_.load(std::memory_order_relaxed));
  return per_step * static_cast<double>(steps) * std::exp2(-std::max(0.0, age) / Seconds(kHolds));
}

}  // namespace beamline
