// What the speculating sequences of one model share: how many tokens each may propose, and what
// became of the proposals. Any thread.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace beamline {

class Speculation {
 public:
  // max_tokens: most proposals of a sequence at one step. max_rows: the logits rows that a step can
  // compute; sequences that decode together share them, so that none waits for another's guesses.
  // original_positions: RotarySpec's.
  Speculation(int32_t max_tokens, int32_t max_rows, int32_t original_positions = 0)
      : max_tokens_(max_tokens), max_rows_(max_rows), original_positions_(original_positions) {}

  // A sequence that decodes, as long as this lives.
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
  // Most tokens that each participant may propose now.
  int32_t share() const {
    const int32_t live = std::max(live_.load(std::memory_order_relaxed), 1);
    return std::clamp(max_rows_ / live - 1, 0, max_tokens_);
  }
  // Most proposals after num_tokens tokens: none may change the angles of all positions.
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
