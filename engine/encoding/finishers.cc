#include "engine/encoding/finishers.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

namespace beamline {
namespace {

double SquaredNorm(std::span<const float> row) {
  double squares = 0.0;
  for (const float value : row) squares += static_cast<double>(value) * value;
  return squares;
}

void ApplyTo(ScoreFunction function, std::span<float> logits) {
  const double largest = *std::ranges::max_element(logits);
  double sum = 0.0;
  for (const float logit : logits) sum += std::exp(logit - largest);
  for (float& value : logits) {
    value = static_cast<float>(function == ScoreFunction::kSoftmax
                                   ? std::exp(value - largest) / sum
                                   : 1.0 / (1.0 + std::exp(-static_cast<double>(value))));
  }
}

}  // namespace

void UnitLength::Apply(HostRows& rows) const {
  constexpr double kLeastNorm = 1e-12;  // torch.nn.functional.normalize's
  const auto width = static_cast<size_t>(rows.width);
  for (size_t begin = 0; begin < rows.values.size(); begin += width) {
    const auto row = std::span(rows.values).subspan(begin, width);
    const double norm = std::max(std::sqrt(SquaredNorm(row)), kLeastNorm);
    for (float& value : row) value = static_cast<float>(value / norm);
  }
}

void FirstDimensions::Apply(HostRows& rows) const {
  if (dimensions_ == rows.width) return;
  const auto width = static_cast<size_t>(rows.width), kept_width = static_cast<size_t>(dimensions_);
  std::vector<float> kept;
  kept.reserve(rows.values.size() / width * kept_width);
  for (size_t begin = 0; begin < rows.values.size(); begin += width) {
    const auto row = std::span<const float>(rows.values).subspan(begin, kept_width);
    const double squares = normalize_ ? SquaredNorm(row) : 0.0;
    const double scale = squares > 0.0 ? 1.0 / std::sqrt(squares) : 1.0;
    for (const float value : row) kept.push_back(static_cast<float>(value * scale));
  }
  rows.values = std::move(kept);
  rows.width = dimensions_;
}

void ClassScores::Apply(HostRows& rows) const {
  if (function_ == ScoreFunction::kNone) return;
  const auto width = static_cast<size_t>(rows.width);
  for (size_t begin = 0; begin < rows.values.size(); begin += width) {
    ApplyTo(function_, std::span(rows.values).subspan(begin, width));
  }
}

}  // namespace beamline
