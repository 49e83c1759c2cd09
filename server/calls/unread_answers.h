// How many bytes of answers wait for clients to read them: gRPC keeps what a client does not take,
// without a limit of its own.
#pragma once

#include <atomic>
#include <cstdint>

namespace beamline {

// Thread safe. An answer takes its bytes before it is made, and gives them back when its call is
// over.
class UnreadAnswers {
 public:
  // Up to this size an answer is always let through: calls are limited in number.
  static constexpr int64_t kSmallBytes = 64 << 10;

  explicit UnreadAnswers(int64_t limit) : limit_(limit) {}

  // False, and nothing is taken, when there would be more than the limit. Whoever finds nothing
  // before him may have any size.
  bool Take(int64_t bytes) {
    const int64_t before = bytes_.fetch_add(bytes, std::memory_order_relaxed);
    if (bytes <= kSmallBytes || before == 0 || before + bytes <= limit_) return true;
    Give(bytes);
    return false;
  }
  void Give(int64_t bytes) { bytes_.fetch_sub(bytes, std::memory_order_relaxed); }

  int64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }
  int64_t limit() const { return limit_; }

 private:
  const int64_t limit_;
  std::atomic<int64_t> bytes_{0};
};

}  // namespace beamline
