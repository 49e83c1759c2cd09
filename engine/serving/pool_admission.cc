// What a pool refuses for the sake of the requests that it has: docs/decisions/0026-admission.md.
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <string_view>

#include "absl/strings/cord.h"
#include "base/shared_limit.h"
#include "engine/serving/replica_pool.h"
#include "fmt/format.h"

namespace beamline {
namespace {

absl::Status Refusal(std::string_view reason, double retry_after, const std::string& message) {
  absl::Status status = absl::ResourceExhaustedError(message);
  status.SetPayload(kRefusalPayload, absl::Cord(std::string(reason)));
  status.SetPayload(
      kRetryAfterPayload,
      absl::Cord(fmt::to_string(static_cast<int64_t>(std::ceil(retry_after * 1000)))));
  return status;
}

}  // namespace

Outlook ReplicaPool::Expect(const Asker& asker, const Demand& demand,
                            std::optional<Clock::time_point> when) const {
  Outlook outlook;
  if (waiting_.Look([](const WaitingWork& work) { return work.empty(); })) return outlook;
  const Clock::time_point now = when.has_value() ? *when : Clock::now();
  WaitingWork::Newcomer newcomer = {
      .priority = asker.priority, .client = asker.client, .most_each = 1, .now = now};
  AddService(demand, now, outlook, newcomer);
  if (asker.is_last) newcomer.width = 0;
  waiting_.Look([&](const WaitingWork& work) {
    const WaitingWork::Before before = work.Ahead(newcomer);
    outlook.cost_ahead = before.waiting;
    outlook.cost_to_come = before.to_come;
  });
  return outlook;
}

void ReplicaPool::AddService(const Demand& demand, Clock::time_point now, Outlook& outlook,
                             WaitingWork::Newcomer& newcomer) const {
  std::lock_guard lock(mutex_);
  double sum = 0;
  bool all_known = true;
  std::optional<double> fastest;
  for (int i = 0; i < size(); ++i) {
    const Slot& slot = slots_[static_cast<size_t>(i)];
    if (slot.replica == nullptr || state_.phase(i) != ReplicaPhase::kUp) continue;
    const ServiceRate& service = slot.replica->stats().service;
    std::optional<double> rate = service.cost_per_second(now);
    if (!rate.has_value()) {
      rate = service.expected_cost_per_second();
      outlook.rate_is_expected = true;
    }
    all_known = all_known && rate.has_value();
    sum += rate.value_or(0);
    const double seconds = service.SecondsForNew(1, now);
    fastest = std::min(fastest.value_or(seconds), seconds);
    newcomer.most_each = std::max(newcomer.most_each, service.LongCost());
    newcomer.width += slot.replica->stats().width;
  }
  if (all_known && sum > 0) outlook.cost_per_second = sum;
  newcomer.cost_per_second = outlook.cost_per_second;
  outlook.service_seconds = fastest.value_or(0) * static_cast<double>(demand.steps);
  outlook.longer_seconds = fastest.value_or(0) * refused_length_.steps(now);
}

Outlook ReplicaPool::ExpectBehindAll(Clock::time_point now) const {
  const Asker last = {.priority = std::numeric_limits<int32_t>::min(), .is_last = true};
  return Expect(last, {}, now);
}

absl::StatusOr<Outlook> ReplicaPool::CheckDeadline(const Asker& asker, const Demand& demand) const {
  if (!asker.deadline.has_value()) return Expect(asker, demand);
  const Clock::time_point now = Clock::now();
  Outlook outlook = Expect(asker, demand, now);
  const double left = std::chrono::duration<double>(*asker.deadline - now).count();
  if (left <= 0 || outlook.Meets(left)) return outlook;
  const double own = outlook.service_seconds;
  // One that is too long for its deadline finds no room in an empty queue either.
  if (demand.steps > 0 && own <= Outlook::kShare * left) refused_length_.Add(demand.steps, now);
  const double with_those_before = *outlook.queue_seconds() + own;
  const double retry_after = outlook.RetryAfter(left);
  if (with_those_before <= Outlook::kShare * left) {
    return Refusal(kRefusedByDeadline, retry_after,
                   fmt::format("the request would take about {:.2f} s at model '{}', with those "
                               "before it, and longer ones, which are refused, {:.2f} s; its "
                               "deadline is in {:.2f} s",
                               with_those_before, facts_->options.name,
                               *outlook.queue_seconds() + outlook.reserved_seconds(left), left));
  }
  return Refusal(kRefusedByDeadline, retry_after,
                 fmt::format("the request would take about {:.2f} s at model '{}', with those "
                             "before it; its deadline is in {:.2f} s",
                             with_those_before, facts_->options.name, left));
}

absl::Status ReplicaPool::TooManyTokens(int64_t tokens, int64_t sum) const {
  const int64_t most = facts_->max_queued_tokens();
  const Outlook outlook = ExpectBehindAll(Clock::now());
  double retry_after = Outlook::kLeastRetry;
  if (const std::optional<double> queue = outlook.queue_seconds(); queue.has_value()) {
    retry_after = std::clamp(*queue * static_cast<double>(sum - most) / static_cast<double>(sum),
                             Outlook::kLeastRetry, Outlook::kMostRetry);
  }
  return Refusal(
      kRefusedByTokens, retry_after,
      fmt::format("the request's {} tokens and those that wait for model '{}' are {}; "
                  "accepted: at most {}, of which the last {} are for clients that have few "
                  "(max_queued_tokens)",
                  tokens, facts_->options.name, sum, most, SharedLimit::Reserve(most)));
}

}  // namespace beamline
