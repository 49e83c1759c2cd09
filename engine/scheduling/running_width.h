// How many sequences should run at once to use a device well. With more of them, each takes longer
// and throughput hardly grows (docs/decisions/0026-admission.md). Derived from the times of the
// regular steps. No clock, no I/O.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>

namespace beamline {

class RunningWidth {
 public:
  // Adds a step of `sequences` and `tokens` that took `seconds`.
  void AddStep(int32_t sequences, int32_t tokens, double seconds);

  // Number of running sequences that reaches kShare of the maximum throughput; at least kLeast, at
  // most `most`. Returns `most` until enough steps are measured.
  int32_t Enough(int32_t most) const;
  // Number of useful sequences: the larger of kWide and the number that reaches kShare, limited by
  // the requests' deadlines. `seconds`: time per remaining step until the deadlines (infinity: no
  // deadline); a step may take kMostOfTime of it. At least the number that reaches kLeastShare.
  int32_t Within(double seconds, int32_t most) const;

  // Speed of steps with `sequences` sequences and the usual further tokens.
  struct Pace {
    double step_seconds = 0;
    double tokens_per_second = 0;
  };
  // nullopt until the measurements are accurate to kError. If they leave a range open, returns its
  // fast end.
  std::optional<Pace> PaceOf(int32_t sequences) const;

  static constexpr double kShare = 0.95;
  static constexpr double kLeastShare = 0.8;
  static constexpr double kMostOfTime = 1.0 / 2;
  // Up to this many rows, a CPU's matmuls get faster per row; with a small model they take the same
  // time. This holds even if the line fitted to the step times does not show it.
  static constexpr int32_t kWide = 64;
  static constexpr double kError = 0.25;
  // A CPU's matmuls process rows in blocks of this size: 31 rows take longer than 32.
  static constexpr int32_t kBlock = 4;
  static constexpr int32_t kLeast = 16;
  // Minimum number of steps before an estimate is used.
  static constexpr int32_t kLeastSteps = 32;

 private:
  static constexpr double kNoWidth = std::numeric_limits<double>::infinity();
  static constexpr double kLeastSeen = 0.9 * kLeastSteps;  // with fading
  static constexpr double kKept = 0.999;                   // of steps of similar width, at each
                                                           // step
  static constexpr double kFades = 0.99;                   // of all steps, every kFadeSteps
  static constexpr int32_t kFadeSteps = 1000;
  static constexpr size_t kBands = 12;  // bands of widths, each twice as wide as the previous one
  static constexpr size_t kTerms = 3;
  using Row = std::array<double, kTerms>;

  // Fitted seconds of a step, and of each sequence in it with its further tokens.
  struct Fit {
    double fixed = 0;
    double fixed_error = 0;  // standard error
    double each = 0;
    double steps = 0;
    double tokens = 1;    // per sequence
    double variance = 0;  // of the seconds per sequence
    std::array<Row, kTerms> inverse = {};

    // Standard error of the seconds of a step with `sequences` sequences.
    double ErrorAt(double sequences) const;
  };
  // Sums over some steps: products of the terms 1 / sequences, 1, further tokens / sequences; and
  // of these with the seconds per sequence.
  struct Sums {
    std::array<Row, kTerms> products = {};
    Row times = {};
    double squares = 0;
    double steps = 0;
    double sequences = 0;
    double further_tokens = 0;

    // Adds `share` times these sums to those of `other`.
    void Merge(double share, const Sums& other);
  };
  static double Reach(const Fit& fit, double share);
  // Rounded up to whole blocks.
  static int32_t Whole(double width, int32_t most);
  Sums All() const;
  Fit Solve() const;
  const Fit& LastFit() const {
    if (!fit_.has_value()) fit_ = Solve();
    return *fit_;
  }

  // Separate sums per band of widths: many steps of one width must not displace what is known about
  // other widths.
  std::array<Sums, kBands> bands_ = {};
  int32_t steps_until_fade_ = kFadeSteps;
  mutable std::optional<Fit> fit_;  // of all steps
};

}  // namespace beamline
