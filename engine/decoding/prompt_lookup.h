// N-gram (prompt-lookup) speculation: proposes the tokens that followed the latest earlier
// occurrence of the text's last tokens. Costs a few hash look-ups per token.
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
    int32_t ngram = 0;      // matching tokens; 0: the last token has not occurred before
    int32_t follower = -1;  // position of the token after their latest earlier occurrence
  };
  // Returns the match with the most tokens, up to kLongestNgram.
  Match Find() const;
  // Copies `count` tokens from `follower` on. At the end of the text it continues with the copied
  // tokens, so that a loop is proposed as a loop.
  TokenIds Copy(int32_t follower, int32_t count) const;

 private:
  TokenIds tokens_;
  std::array<NgramIndex, kLongestNgram> followers_;  // n-grams of 1, 2, 3 tokens
};

// Number of draft tokens to propose, adapted to the acceptance so far: doubled after all were
// accepted, halved after most were rejected. If none was accepted, drafting pauses for a while and
// then retries with one token.
class GuessLength {
 public:
  // REQUIRES: max >= 1.
  explicit GuessLength(int32_t max);

  // Length of the next draft. 0: no draft this time.
  int32_t Next();
  // REQUIRES: proposed >= 1.
  void Record(int32_t proposed, int32_t accepted);

 private:
  int32_t max_;
  int32_t length_;
  int32_t pause_ = 0;   // drafts still to skip
  int32_t next_pause_;  // length of the pause after the next failure
};

}  // namespace beamline
