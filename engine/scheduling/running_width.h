// How many sequences need to run at once so that a device is used well: with more, each of them
// takes longer and hardly more are done (docs/decisions/0026-admission.md). Measured by the steps
// that are computed anyway. Pure.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace beamline {

class RunningWidth {
 public:
  // A step of so many sequences and tokens took so long.
  void AddStep(int32_t sequences, int32_t tokens, double seconds);

  // Running sequences that reach kShare of what any number of them would, at least kLeast and at
  // most `most`; `most` while the steps do not show it.
  int32_t Enough(int32_t most) const;
  // As many as a step of so many seconds has, that bring new tokens as they have, but no fewer than
  // Enough.
  int32_t Within(double seconds, int32_t most) const;

  static constexpr double kShare = 0.95;
  static constexpr int32_t kLeast = 16;
  // Steps before anything is believed.
  static constexpr int32_t kLeastSteps = 32;

 private:
  static constexpr double kKept = 0.999;  // of steps as wide, at each step
  static constexpr double kFades = 0.99;  // of all, every kFadeSteps
  static constexpr int32_t kFadeSteps = 1000;
  static constexpr size_t kBands = 12;  // of widths, each twice as wide as the one before
  static constexpr size_t kTerms = 3;
  using Row = std::array<double, kTerms>;

  // Seconds of a step, and of each sequence of it with its further tokens.
  struct Fit {
    double fixed = 0;
    double fixed_error = 0;  // the standard one
    double each = 0;
  };
  // Of some steps, sums of products of: 1 / sequences, 1, further tokens / sequences; and the
  // seconds of a sequence.
  struct Sums {
    std::array<Row, kTerms> products = {};
    Row times = {};
    double squares = 0;
    double steps = 0;

    // Counts a `share` of them, and those of `other`.
    void Merge(double share, const Sums& other);
  };
  Sums All() const;
  Fit Solve() const;

  // Steps of one width tell nothing of others, however long they go on: what is known of those is
  // kept for itself.
  std::array<Sums, kBands> bands_ = {};
  int32_t steps_until_fade_ = kFadeSteps;
};

}  // namespace beamline
