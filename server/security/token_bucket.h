// A token bucket: fills at a steady rate up to its capacity. All of it may be taken at once.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

namespace beamline {

// A client's limits, in tokens.
struct QuotaLimits {
  static constexpr int64_t kMostTokensPerSecond = 1'000'000'000;
  static constexpr int64_t kMostBurst = 1'000'000'000'000;
  static constexpr int64_t kSecondsOfBurst = 60;

  int64_t tokens_per_second = 0;  // 0: no limit
  int64_t burst = 0;              // at most at once; 0: as many as a minute gives

  bool limits() const { return tokens_per_second > 0; }
  // `burst`, or its default.
  int64_t capacity() const { return burst > 0 ? burst : tokens_per_second * kSecondsOfBurst; }
  bool operator==(const QuotaLimits&) const = default;
};

// Not thread safe. The caller passes times of a steady clock. A time before the last one counts as
// the last one.
class TokenBucket {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // Starts full. REQUIRES: limits.limits().
  TokenBucket(const QuotaLimits& limits, Time now) : limits_(limits), time_(now) {
    level_ = static_cast<double>(limits.capacity());
  }

  // nullopt: the tokens are taken. Otherwise none are taken, and the result is the time until there
  // are enough, if no others are taken or given. More tokens than the capacity can be taken from a
  // full bucket, which is in debt then.
  std::optional<std::chrono::nanoseconds> Take(int64_t tokens, Time now);
  // Always takes them, which may leave a debt.
  void TakeAnyway(int64_t tokens, Time now);
  // Returns taken tokens. Any above the capacity are lost.
  void Give(int64_t tokens, Time now);
  // Keeps the current level, up to the new capacity.
  void SetLimits(const QuotaLimits& limits, Time now);

  const QuotaLimits& limits() const { return limits_; }
  double LevelAt(Time now) const;  // negative: a debt
  bool IsFullAt(Time now) const { return LevelAt(now) >= Capacity(); }

 private:
  double Capacity() const { return static_cast<double>(limits_.capacity()); }
  void Flow(Time now);

  QuotaLimits limits_;
  double level_ = 0;  // at time_
  Time time_;
};

}  // namespace beamline
