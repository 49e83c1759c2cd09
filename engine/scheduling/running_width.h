// How many sequences need to run at once so that a device is used well: with more, each of them
// takes longer and hardly more are done (docs/decisions/0026-admission.md). Measured by the steps
// that are computed anyway. Pure.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>

namespace beamline {

class RunningWidth {
 public:
  // A step of so many sequences and tokens took so long.
  void AddStep(int32_t sequences, int32_t tokens, double seconds);

  // Running sequences that reach kShare of what any number of them would, at least kLeast and at
  // most `most`; `most` while the steps do not show it.
  int32_t Enough(int32_t most) const;
  // As many as are of use, kWide or those that reach kShare, as far as requests have time for them,
  // who have so many seconds for each of their steps until their deadlines (infinity: none): whose
  // steps take kMostOfTime of it; but no fewer than reach kLeastShare.
  int32_t Within(double seconds, int32_t most) const;

  // Of steps of so many sequences, that bring further tokens as they have.
  struct Pace {
    double step_seconds = 0;
    double tokens_per_second = 0;
  };
  // Nullopt while the steps do not show it to within kError; at the fast end of what they leave
  // open.
  std::optional<Pace> PaceOf(int32_t sequences) const;

  static constexpr double kShare = 0.95;
  static constexpr double kLeastShare = 0.8;
  static constexpr double kMostOfTime = 1.0 / 2;
  // Up to so many rows a CPU's products become faster by the row, or of a little model take as
  // long, whatever the line through the steps' times shows.
  static constexpr int32_t kWide = 64;
  static constexpr double kError = 0.25;
  // A CPU's products take rows in blocks of so many: 31 rows take longer than 32.
  static constexpr int32_t kBlock = 4;
  static constexpr int32_t kLeast = 16;
  // Steps before anything is believed.
  static constexpr int32_t kLeastSteps = 32;

 private:
  static constexpr double kNoWidth = std::numeric_limits<double>::infinity();
  static constexpr double kLeastSeen = 0.9 * kLeastSteps;  // of them, as they fade
  static constexpr double kKept = 0.999;                   // of steps as wide, at each step
  static constexpr double kFades = 0.99;                   // of all, every kFadeSteps
  static constexpr int32_t kFadeSteps = 1000;
  static constexpr size_t kBands = 12;  // of widths, each twice as wide as the one before
  static constexpr size_t kTerms = 3;
  using Row = std::array<double, kTerms>;

  // Seconds of a step, and of each sequence of it with its further tokens.
  struct Fit {
    double fixed = 0;
    double fixed_error = 0;  // the standard one
    double each = 0;
    double steps = 0;
    double tokens = 1;    // of a sequence
    double variance = 0;  // of a sequence's seconds
    std::array<Row, kTerms> inverse = {};

    // The standard error of the seconds of a step of so many sequences.
    double ErrorAt(double sequences) const;
  };
  // Of some steps, sums of products of: 1 / sequences, 1, further tokens / sequences; and the
  // seconds of a sequence.
  struct Sums {
    std::array<Row, kTerms> products = {};
    Row times = {};
    double squares = 0;
    double steps = 0;
    double sequences = 0;
    double further_tokens = 0;

    // Counts a `share` of them, and those of `other`.
    void Merge(double share, const Sums& other);
  };
  static double Reach(const Fit& fit, double share);
  // In whole blocks.
  static int32_t Whole(double width, int32_t most);
  Sums All() const;
  Fit Solve() const;
  const Fit& LastFit() const {
    if (!fit_.has_value()) fit_ = Solve();
    return *fit_;
  }

  // Steps of one width tell nothing of others, however long they go on: what is known of those is
  // kept for itself.
  std::array<Sums, kBands> bands_ = {};
  int32_t steps_until_fade_ = kFadeSteps;
  mutable std::optional<Fit> fit_;  // of all steps
};

}  // namespace beamline
