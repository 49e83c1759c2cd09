#include "server/security/token_bucket.h"

#include <algorithm>
#include <cmath>

namespace beamline {
namespace {

// For rounding errors: a client that waits for the announced time gets its tokens.
constexpr double kTolerance = 1e-3;

}  // namespace

double TokenBucket::LevelAt(Time now) const {
  const double seconds = std::chrono::duration<double>(std::max(now, time_) - time_).count();
  return std::min(Capacity(), level_ + seconds * static_cast<double>(limits_.tokens_per_second));
}

void TokenBucket::Flow(Time now) {
  level_ = LevelAt(now);
  time_ = std::max(now, time_);
}

std::optional<std::chrono::nanoseconds> TokenBucket::Take(int64_t tokens, Time now) {
  Flow(now);
  const double wanted = std::min(static_cast<double>(tokens), Capacity());
  if (level_ + kTolerance >= wanted) {
    level_ -= static_cast<double>(tokens);
    return std::nullopt;
  }
  const double seconds = (wanted - level_) / static_cast<double>(limits_.tokens_per_second);
  return std::chrono::nanoseconds(static_cast<int64_t>(std::ceil(seconds * 1e9)));
}

void TokenBucket::TakeAnyway(int64_t tokens, Time now) {
  Flow(now);
  level_ -= static_cast<double>(tokens);
}

void TokenBucket::Give(int64_t tokens, Time now) {
  Flow(now);
  level_ = std::min(Capacity(), level_ + static_cast<double>(tokens));
}

void TokenBucket::SetLimits(const QuotaLimits& limits, Time now) {
  Flow(now);
  limits_ = limits;
  level_ = std::min(Capacity(), level_);
}

}  // namespace beamline
