// A token bucket: what flows in at a steady rate up to a limit may be taken out at once.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

namespace beamline {

// How many tokens a client may use.
struct QuotaLimits {
  static constexpr int64_t kMostTokensPerSecond = 1'000'000'000;
  static constexpr int64_t kMostBurst = 1'000'000'000'000;
  static constexpr int64_t kSecondsOfBurst = 60;

  int64_t tokens_per_second = 0;  // 0: any number
  int64_t burst = 0;              // at once, at most; 0: those of a minute

  bool limits() const { return tokens_per_second > 0; }
  // `burst`, with 0 as what it means.
  int64_t capacity() const { return burst > 0 ? burst : tokens_per_second * kSecondsOfBurst; }
  bool operator==(const QuotaLimits&) const = default;
};

// One thread at a time. Times are the caller's, of a clock that nobody sets; one that lies before
// an earlier one counts as that.
class TokenBucket {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // Full. REQUIRES: limits.limits().
  TokenBucket(const QuotaLimits& limits, Time now) : limits_(limits), time_(now) {
    level_ = static_cast<double>(limits.capacity());
  }

  // Nullopt: they are taken. Else nothing is, and until there are enough it takes so long, when
  // nobody takes or gives any. More than the capacity are taken of a full bucket, which is in debt
  // then.
  std::optional<std::chrono::nanoseconds> Take(int64_t tokens, Time now);
  // Takes them in any case, which may leave a debt.
  void TakeAnyway(int64_t tokens, Time now);
  // Of those that were taken. What is beyond the capacity is lost.
  void Give(int64_t tokens, Time now);
  // What is in it stays, as far as it has room.
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
