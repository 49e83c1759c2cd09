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
  sequences = share * sequences + other.sequences;
  further_tokens = share * further_tokens + other.further_tokens;
  steps = share * steps + other.steps;
}

// A step of s sequences takes about fixed + s * row + (tokens - s) * token seconds. The error of a
// step grows with the step, so the line is fitted to the seconds per sequence.
void RunningWidth::AddStep(int32_t sequences, int32_t tokens, double seconds) {
  if (sequences <= 0 || seconds <= 0) return;
  const double count = sequences;
  const Row terms = {1 / count, 1, std::max(0, tokens - sequences) / count};
  const double time = seconds / count;
  Sums step = {.squares = time * time,
               .steps = 1,
               .sequences = count,
               .further_tokens = static_cast<double>(std::max(0, tokens - sequences))};
  for (size_t i = 0; i < kTerms; ++i) {
    for (size_t j = 0; j < kTerms; ++j) step.products[i][j] = terms[i] * terms[j];
    step.times[i] = terms[i] * time;
  }
  const auto width = static_cast<uint32_t>(sequences);
  fit_.reset();
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
  // Gauss-Jordan elimination with the unit matrix, which becomes the inverse; its diagonal gives
  // the variance of each term. A term that never varied has a pivot close to zero.
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
  // Each further sequence also adds its share of the further tokens. The mean is taken over all
  // steps, because the steps of a single long prompt have thousands of tokens for one sequence.
  const double further = all.further_tokens / all.sequences;
  Fit fit = {.fixed = std::max(0.0, terms[0]),
             .fixed_error = std::sqrt(variance * std::max(0.0, rows[0][kTerms])),
             .each = terms[1] + std::max(0.0, terms[2]) * further,
             .steps = all.steps,
             .tokens = 1 + further,
             .variance = variance};
  for (size_t i = 0; i < kTerms; ++i) {
    std::copy(rows[i].begin() + kTerms, rows[i].end(), fit.inverse[i].begin());
  }
  return fit;
}

double RunningWidth::Fit::ErrorAt(double sequences) const {
  const Row step = {1, sequences, sequences * (tokens - 1)};
  double squares = 0;
  for (size_t i = 0; i < kTerms; ++i) {
    for (size_t j = 0; j < kTerms; ++j) squares += step[i] * inverse[i][j] * step[j];
  }
  return std::sqrt(variance * std::max(0.0, squares));
}

std::optional<RunningWidth::Pace> RunningWidth::PaceOf(int32_t sequences) const {
  const Fit& fit = LastFit();
  if (sequences <= 0 || fit.steps < kLeastSeen) return std::nullopt;
  const double seconds = fit.fixed + fit.each * sequences;
  const double error = 2 * fit.ErrorAt(sequences);
  if (!(fit.each > 0) || !(error <= kError * seconds)) return std::nullopt;
  const double fast = seconds - error;
  return Pace{.step_seconds = fast, .tokens_per_second = fit.tokens * sequences / fast};
}

int32_t RunningWidth::Enough(int32_t most) const {
  const Fit& fit = LastFit();
  return fit.steps < kLeastSeen ? most : Whole(Reach(fit, kShare), most);
}

double RunningWidth::Reach(const Fit& fit, double share) {
  // Uncertain terms count as large. Then more sequences may run, and their steps provide data.
  const double rows_of_fixed = (fit.fixed + 2 * fit.fixed_error) / fit.each;
  return fit.each > 0 ? share / (1 - share) * rows_of_fixed : kNoWidth;
}

int32_t RunningWidth::Within(double seconds, int32_t most) const {
  const Fit& fit = LastFit();
  if (fit.steps < kLeastSeen || !(fit.each > 0)) return most;
  const double useful = std::max<double>(kWide, Reach(fit, kShare));
  const double in_time = (kMostOfTime * seconds - fit.fixed) / fit.each;
  return Whole(std::max(Reach(fit, kLeastShare), std::min(useful, in_time)), most);
}

int32_t RunningWidth::Whole(double width, int32_t most) {
  if (!(width < most)) return most;
  const int32_t whole = kBlock * static_cast<int32_t>(std::ceil(width / kBlock));
  return std::clamp(whole, std::min(kLeast, most), most);
}

}  // namespace beamline
