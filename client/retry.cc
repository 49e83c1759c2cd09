#include "client/retry.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <thread>

#include "client/grpc_status.h"
#include "google/rpc/error_details.pb.h"

namespace beamline {
namespace {

using std::chrono::milliseconds;

// The delay that the server asks for; nullopt: none.
std::optional<milliseconds> AskedFor(const absl::Status& error) {
  const google::rpc::Status details = GetDetails(error);
  for (const auto& detail : details.details()) {
    google::rpc::RetryInfo retry;
    if (detail.UnpackTo(&retry)) {
      constexpr int64_t kMostSeconds = 1'000'000'000;  // the result counts milliseconds
      const int64_t whole = std::clamp<int64_t>(retry.retry_delay().seconds(), 0, kMostSeconds);
      const int64_t part = std::clamp<int64_t>(retry.retry_delay().nanos(), 0, 999'999'999);
      return milliseconds(whole * 1000 + (part + 999'999) / 1'000'000);
    }
  }
  return std::nullopt;
}

double Random() {
  thread_local std::mt19937 generator{std::random_device{}()};
  return std::uniform_real_distribution<double>(0, 1)(generator);
}

}  // namespace

std::optional<milliseconds> RetryDelay(const RetryPolicy& policy, const absl::Status& error,
                                       int num_failures, double random) {
  if (num_failures >= policy.max_attempts) return std::nullopt;
  const std::optional<milliseconds> asked_for = AskedFor(error);
  // The server sends RetryInfo only with temporary errors; a too large request is not one.
  if (!absl::IsUnavailable(error) && !(absl::IsResourceExhausted(error) && asked_for.has_value())) {
    return std::nullopt;
  }
  if (asked_for.value_or(milliseconds(0)) > policy.max_server_delay) return std::nullopt;
  const double backoff = std::min(static_cast<double>(policy.initial_backoff.count()) *
                                      std::pow(std::max(1.0, policy.multiplier), num_failures - 1),
                                  static_cast<double>(policy.max_backoff.count()));
  const double wait =
      std::max({backoff, static_cast<double>(asked_for.value_or(milliseconds(0)).count()), 0.0});
  return milliseconds(std::llround(std::ceil(wait * (1 + std::max(0.0, policy.jitter) * random))));
}

std::optional<milliseconds> RetryDelay(const RetryPolicy& policy, const absl::Status& error,
                                       int num_failures) {
  return RetryDelay(policy, error, num_failures, Random());
}

Attempts::Attempts(const RetryPolicy& policy, milliseconds timeout) : policy_(policy) {
  if (timeout.count() > 0 && timeout <= kLongestTimeout) {
    deadline_ = std::chrono::system_clock::now() + timeout;
  }
}

void Attempts::SetDeadline(grpc::ClientContext& context) const {
  if (deadline_.has_value()) context.set_deadline(*deadline_);
}

milliseconds Attempts::Remaining() const {
  if (!deadline_.has_value()) return milliseconds(0);
  return std::max(milliseconds(1), std::chrono::duration_cast<milliseconds>(
                                       *deadline_ - std::chrono::system_clock::now()));
}

std::optional<milliseconds> Attempts::DelayAfter(const absl::Status& error) {
  const std::optional<milliseconds> delay = RetryDelay(policy_, error, ++num_failures_);
  if (delay.has_value() && deadline_.has_value() && *delay >= Remaining()) return std::nullopt;
  return delay;
}

bool Attempts::WaitAfter(const absl::Status& error) {
  const std::optional<milliseconds> delay = DelayAfter(error);
  if (!delay.has_value()) return false;
  std::this_thread::sleep_for(*delay);
  return true;
}

}  // namespace beamline
