// Guesses how a text goes on: as it did the last time that its last tokens occurred in it ("prompt
// lookup"). Costs a few hash look-ups per token.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "engine/api/request.h"
#include "engine/decoding/ngram_index.h"

namespace beamline {

class PromptLookup {
 public:
  static constexpr int32_t kLongestNgram = 3;

  explicit PromptLookup(std::span<const int32_t> prompt);

  void Append(int32_t token);

  struct Match {
    int32_t ngram = 0;      // tokens that agree; 0: the last token is new
    int32_t follower = -1;  // position of the token after their latest earlier occurrence
  };
  // With the most tokens that agree, up to kLongestNgram.
  Match Find() const;
  // The `count` tokens from `follower` on. Where the text ends they go on with themselves: a loop
  // is guessed as a loop.
  TokenIds Copy(int32_t follower, int32_t count) const;

 private:
  TokenIds tokens_;
  std::array<NgramIndex, kLongestNgram> followers_;  // of 1, 2, 3 tokens
};

// How many tokens are worth guessing, learnt from how the guesses fared: twice as many after all
// were right, half as many after most were wrong; none for a while when not even one was, and then
// one to see.
class GuessLength {
 public:
  // REQUIRES: max >= 1.
  explicit GuessLength(int32_t max);

  // For the next guess. 0: none this time.
  int32_t Next();
  // proposed >= 1.
  void Record(int32_t proposed, int32_t accepted);

 private:
  int32_t max_;
  int32_t length_;
  int32_t pause_ = 0;   // guesses that are still left out
  int32_t next_pause_;  // when the next one fails
};

}  // namespace beamline
