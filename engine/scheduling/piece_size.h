// How many prompt tokens a step may have so that running streams do not wait longer than a gap: by
// the times of the steps that are computed anyway. Pure.
//
// A step takes about what a step without prompts takes, and some time for each prompt token. That
// time is measured where it is used: it grows with the context, and differs between one token and
// a thousand, so that steps with less than half of a piece do not count. The size is corrected from
// step to step, so that the steps come to take the gap.
#pragma once

#include <cstdint>

namespace beamline {

class PieceSize {
 public:
  // max_gap_seconds: 0: steps are bounded by `most_tokens` alone.
  PieceSize(double max_gap_seconds, int32_t most_tokens)
      : max_gap_(max_gap_seconds), most_(most_tokens) {}

  // Adds a step: its tokens of prompts, those of sequences that decode, and its duration.
  void AddStep(int32_t prompt_tokens, int32_t decode_tokens, double seconds);

  // Prompt tokens of a step, 1 .. most_tokens, beside sequences that decode: the step then takes
  // kAim of the gap, or twice as long as one without prompts where that is more.
  int32_t BesideDecoding() const;
  // The same while nothing decodes: what comes meanwhile waits for kLoneGaps gaps at most.
  int32_t Alone() const;

  static constexpr double kAim = 0.9;
  static constexpr double kLoneGaps = 4;
  // Fewer make a prompt's products less efficient than the gap is worth.
  static constexpr int32_t kFewest = 16;
  static constexpr int32_t kFewestAlone = 256;
  // While nothing is measured.
  static constexpr int32_t kFirst = 512;

 private:
  int32_t TokensIn(double seconds, int32_t fewest) const;

  double max_gap_;
  int32_t most_;
  double decode_seconds_ = 0;  // of a step without prompts; 0: not known
  double token_seconds_ = 0;   // of a prompt token; 0: not known
};

}  // namespace beamline
