#include "loadtest/workload/rate_profile.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>
#include <utility>

#include "base/command_line.h"
#include "fmt/format.h"

namespace beamline::loadtest {
namespace {

constexpr double kMaxRate = 1e6;
constexpr double kMinSeconds = 0.01;
constexpr double kMaxSeconds = 86'400;

// Requests of a phase until `time_s` after its start.
double CountOf(const RatePhase& phase, double time_s) {
  const double slope = (phase.to - phase.from) / phase.seconds;
  return time_s * (phase.from + slope * time_s / 2);
}

// The inverse of CountOf. Solves the quadratic equation in the form that has no cancellation and no
// division by a slope of 0.
double TimeInPhase(const RatePhase& phase, double count) {
  const double slope = (phase.to - phase.from) / phase.seconds;
  const double root = std::sqrt(std::max(0.0, phase.from * phase.from + 2 * slope * count));
  const double divisor = phase.from + root;
  return divisor > 0 ? std::min(phase.seconds, 2 * count / divisor) : 0;
}

}  // namespace

absl::StatusOr<RatePhase> ParseRatePhase(const std::string& what, const std::string& text) {
  const std::string_view whole = text;
  const size_t colon = whole.find(':');
  const std::string_view rates = whole.substr(0, colon);
  const size_t dots = rates.find("..");
  const bool is_ramp = dots != std::string_view::npos;
  const auto from = ParseNumber(rates.substr(0, dots), 0.0, kMaxRate);
  const auto to = is_ramp ? ParseNumber(rates.substr(dots + 2), 0.0, kMaxRate) : from;
  std::optional<double> seconds;
  if (colon != std::string_view::npos) {
    seconds = ParseNumber(whole.substr(colon + 1), kMinSeconds, kMaxSeconds);
  }
  if (!from || !to || !seconds) {
    return absl::InvalidArgumentError(
        fmt::format("{} is '{}'; accepted: RATE:SECONDS or FROM..TO:SECONDS, rates of 0 to {} a "
                    "second, {} to {} s",
                    what, text, kMaxRate, kMinSeconds, kMaxSeconds));
  }
  return RatePhase{.from = *from, .to = *to, .seconds = *seconds};
}

RateProfile::RateProfile(std::vector<RatePhase> phases) : phases_(std::move(phases)) {}

double RateProfile::CountAt(double time_s) const {
  double count = 0;
  for (const RatePhase& phase : phases_) {
    if (time_s <= phase.seconds) return count + CountOf(phase, std::max(0.0, time_s));
    count += CountOf(phase, phase.seconds);
    time_s -= phase.seconds;
  }
  return count + time_s * phases_.back().to;
}

double RateProfile::TimeOf(double count) const {
  double begin_s = 0;
  for (const RatePhase& phase : phases_) {
    const double in_phase = CountOf(phase, phase.seconds);
    if (count < in_phase) return begin_s + TimeInPhase(phase, count);
    count -= in_phase;
    begin_s += phase.seconds;
  }
  const double last = phases_.back().to;
  return last > 0 ? std::min(kNever, begin_s + count / last) : kNever;
}

}  // namespace beamline::loadtest
