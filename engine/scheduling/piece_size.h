// Size of prefill chunks: how many prompt tokens a step may have, so that running streams do not
// wait longer than a given gap. Derived from the times of the regular steps. No clock, no I/O.
//
// A step takes about as long as a step without prompts, plus some time per prompt token. That time
// grows with the context, and per token it differs between one token and a thousand. So steps
// within the gap that have less than half a chunk are ignored. Each step corrects the size, so that
// step times approach the gap.
#pragma once

#include <cstdint>

namespace beamline {

class PieceSize {
 public:
  // max_gap_seconds 0: only `most_tokens` limits a step.
  PieceSize(double max_gap_seconds, int32_t most_tokens)
      : max_gap_(max_gap_seconds), most_(most_tokens) {}

  // Adds a step: its prompt tokens, its decode tokens, and its duration.
  void AddStep(int32_t prompt_tokens, int32_t decode_tokens, double seconds);

  // Prompt tokens of a step with decoding sequences, 1 .. most_tokens. The step then takes kAim of
  // the gap, or twice the time of a step without prompts if that is longer.
  int32_t BesideDecoding() const;
  // The same while nothing decodes. A request that arrives then waits for at most kLoneGaps gaps.
  int32_t Alone() const;

  static constexpr double kAim = 0.9;
  static constexpr double kLoneGaps = 4;
  // Smaller chunks would make a prompt's matmuls too inefficient.
  static constexpr int32_t kFewest = 16;
  static constexpr int32_t kFewestAlone = 256;
  // Used before anything is measured.
  static constexpr int32_t kFirst = 512;

 private:
  int32_t TokensIn(double seconds, int32_t fewest) const;

  double max_gap_;
  int32_t most_;
  double decode_seconds_ = 0;  // per step without prompts; 0: unknown
  double token_seconds_ = 0;   // per prompt token; 0: unknown
};

}  // namespace beamline
