#include "loadtest/search/rate_search.h"

#include <algorithm>
#include <cmath>

namespace beamline::loadtest {
namespace {

double ThreeDigits(double rate) {
  // Scales by whole powers of ten, so that the result is the double nearest to its three digits.
  const int places = 2 - static_cast<int>(std::floor(std::log10(rate)));
  const double scale = std::pow(10, std::abs(places));
  return places >= 0 ? std::round(rate * scale) / scale : std::round(rate / scale) * scale;
}

}  // namespace

std::optional<double> RateSearch::Next() const {
  if (retried_) return retried_;
  if (!holding_) return failing_ ? std::nullopt : std::optional(range_.lowest);
  if (!failing_) {
    if (HoldsAtTop()) return std::nullopt;
    return std::min(range_.highest, *holding_ * range_.growth);
  }
  if (*failing_ <= *holding_ * (1 + range_.precision)) return std::nullopt;
  const double middle = std::sqrt(*holding_ * *failing_);
  const double rounded = ThreeDigits(middle);
  return rounded > *holding_ && rounded < *failing_ ? rounded : middle;
}

void RateSearch::Add(double rate, bool holds) {
  num_failed_ += holds ? 0 : 1;
  retried_.reset();
  if (!holds && num_failed_ < tries_) {
    retried_ = rate;
    return;
  }
  num_failed_ = 0;
  (holds ? holding_ : failing_) = rate;
}

}  // namespace beamline::loadtest
