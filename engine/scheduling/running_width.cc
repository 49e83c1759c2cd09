#include "engine/scheduling/running_width.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <utility>

namespace beamline {

void RunningWidth::Sums::Merge(double share, const Sums& other) {
  for (size_t i = 0; i < kTerms; ++i) {
    for (size_t j = 0; j < kTerms; ++j) {
      products[i][j] = share * products[i][j] + other.products[i][j];
    }
    times[i] = share * times[i] + other.times[i];
  }
  squares = share * squares + other.squares;
  steps = share * steps + other.steps;
}

// A step of s sequences takes about fixed + s * row + (tokens - s) * token seconds. Each step's
// error grows with the step, so that the line is fitted to the seconds of a sequence.
void RunningWidth::AddStep(int32_t sequences, int32_t tokens, double seconds) {
  if (sequences <= 0 || seconds <= 0) return;
  const double count = sequences;
  const Row terms = {1 / count, 1, std::max(0, tokens - sequences) / count};
  const double time = seconds / count;
  Sums step = {.squares = time * time, .steps = 1};
  for (size_t i = 0; i < kTerms; ++i) {
    for (size_t j = 0; j < kTerms; ++j) step.products[i][j] = terms[i] * terms[j];
    step.times[i] = terms[i] * time;
  }
  const auto width = static_cast<uint32_t>(sequences);
  bands_[std::min<size_t>(std::bit_width(width), kBands) - 1].Merge(kKept, step);
  if (--steps_until_fade_ > 0) return;
  steps_until_fade_ = kFadeSteps;
  for (Sums& band : bands_) band.Merge(kFades, {});
}

RunningWidth::Sums RunningWidth::All() const {
  Sums all;
  for (const Sums& band : bands_) all.Merge(1, band);
  return all;
}

RunningWidth::Fit RunningWidth::Solve() const {
  const Sums all = All();
  // Gauss-Jordan beside the unit matrix, which becomes the inverse: its diagonal tells how far the
  // terms are known. A term that never varied has next to no pivot.
  std::array<std::array<double, 2 * kTerms>, kTerms> rows = {};
  for (size_t i = 0; i < kTerms; ++i) {
    std::copy(all.products[i].begin(), all.products[i].end(), rows[i].begin());
    rows[i][i] += 1e-9 * all.products[i][i] + 1e-12;
    rows[i][kTerms + i] = 1;
  }
  for (size_t i = 0; i < kTerms; ++i) {
    size_t pivot = i;
    for (size_t j = i + 1; j < kTerms; ++j) {
      if (std::abs(rows[j][i]) > std::abs(rows[pivot][i])) pivot = j;
    }
    std::swap(rows[i], rows[pivot]);
    const double scale = rows[i][i];
    for (double& value : rows[i]) value /= scale;
    for (size_t j = 0; j < kTerms; ++j) {
      if (j == i) continue;
      const double factor = rows[j][i];
      for (size_t k = 0; k < 2 * kTerms; ++k) rows[j][k] -= factor * rows[i][k];
    }
  }
  Row terms = {};
  double explained = 0;
  for (size_t i = 0; i < kTerms; ++i) {
    for (size_t j = 0; j < kTerms; ++j) terms[i] += rows[i][kTerms + j] * all.times[j];
    explained += terms[i] * all.times[i];
  }
  const double variance = std::max(0.0, all.squares - explained) / all.steps;
  // A sequence more brings its share of the further tokens.
  const double further = all.products[1][2] / all.products[1][1];
  return {.fixed = std::max(0.0, terms[0]),
          .fixed_error = std::sqrt(variance * std::max(0.0, rows[0][kTerms])),
          .each = terms[1] + std::max(0.0, terms[2]) * further};
}

int32_t RunningWidth::Enough(int32_t most) const { return Within(0, most); }

int32_t RunningWidth::Within(double seconds, int32_t most) const {
  if (std::isinf(seconds) || All().steps < 0.9 * kLeastSteps) return most;
  const Fit fit = Solve();
  // What is not known well counts as large: then more may run, and the steps show more.
  const double enough = kShare / (1 - kShare) * (fit.fixed + 2 * fit.fixed_error) / fit.each;
  const double width = std::max(enough, (seconds - fit.fixed) / fit.each);
  if (!(fit.each > 0) || !(width < most)) return most;
  return std::clamp(static_cast<int32_t>(std::ceil(width)), std::min(kLeast, most), most);
}

}  // namespace beamline
