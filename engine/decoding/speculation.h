// Shared by the speculating sequences of one model: how many tokens each may propose, and counts of
// accepted proposals. Thread safe.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace beamline {

class Speculation {
 public:
  // max_tokens: maximum draft tokens per sequence and step. max_rows: logits rows that a step can
  // compute; decoding sequences share them, so that none waits for another's draft tokens.
  // original_positions: as in RotarySpec.
  Speculation(int32_t max_tokens, int32_t max_rows, int32_t original_positions = 0)
      : max_tokens_(max_tokens), max_rows_(max_rows), original_positions_(original_positions) {}

  // Counts one decoding sequence while it exists.
  class Participant {
   public:
    explicit Participant(Speculation& speculation) : speculation_(speculation) {
      speculation_.live_.fetch_add(1, std::memory_order_relaxed);
    }
    ~Participant() { speculation_.live_.fetch_sub(1, std::memory_order_relaxed); }
    Participant(const Participant&) = delete;
    Participant& operator=(const Participant&) = delete;

   private:
    Speculation& speculation_;
  };

  int32_t max_tokens() const { return max_tokens_; }
  // Maximum draft tokens that each participant may propose now.
  int32_t share() const {
    const int32_t live = std::max(live_.load(std::memory_order_relaxed), 1);
    return std::clamp(max_rows_ / live - 1, 0, max_tokens_);
  }
  // Maximum draft tokens after `num_tokens` tokens: a draft must not reach the length at which the
  // rotary angles of all positions change.
  int32_t MostBehind(int32_t num_tokens) const {
    return num_tokens <= original_positions_ ? original_positions_ - num_tokens : max_tokens_;
  }

  void Count(int32_t proposed, int32_t accepted) {
    proposed_.fetch_add(proposed, std::memory_order_relaxed);
    accepted_.fetch_add(accepted, std::memory_order_relaxed);
  }
  uint64_t proposed() const { return proposed_.load(std::memory_order_relaxed); }
  uint64_t accepted() const { return accepted_.load(std::memory_order_relaxed); }

 private:
  const int32_t max_tokens_;
  const int32_t max_rows_;
  const int32_t original_positions_;
  std::atomic<int32_t> live_ = 0;
  std::atomic<uint64_t> proposed_ = 0;
  std::atomic<uint64_t> accepted_ = 0;
};

}  // namespace beamline
