#include "loadtest/search/objective.h"

#include <optional>
#include <string_view>
#include <utility>

#include "base/command_line.h"
#include "base/text.h"
#include "fmt/format.h"

namespace beamline::loadtest {
namespace {

constexpr double kLeastMs = 1e-3;
constexpr double kMostMs = 3.6e6;

const Latency* FindLatency(std::string_view flag) {
  for (const Latency& latency : kLatencies) {
    if (flag == latency.flag) return &latency;
  }
  return nullptr;
}

std::optional<double> ParsePercentile(std::string_view text) {
  if (!text.starts_with('p')) return std::nullopt;
  return ParseNumber(text.substr(1), 1.0, 100.0);
}

std::optional<double> ParseMs(std::string_view text) {
  constexpr std::pair<std::string_view, double> kUnits[] = {{"us", 1e-3}, {"ms", 1}, {"s", 1e3}};
  for (const auto& [unit, ms] : kUnits) {
    if (!text.ends_with(unit)) continue;
    text.remove_suffix(unit.size());
    const auto number = ParseNumber(text, kLeastMs / ms, kMostMs / ms);
    return number ? std::optional(*number * ms) : std::nullopt;
  }
  return std::nullopt;
}

}  // namespace

double Objective::ValueMs(const ClassSummary& requests) const {
  const Histogram& histogram = requests.*latency->histogram;
  return static_cast<double>(histogram.ValueAtQuantile(percentile / 100)) / 1e6;
}

bool Objective::IsOfStreams() const { return latency->histogram != &ClassSummary::end_to_end; }

std::string Objective::Name() const { return fmt::format("{} p{:g}", latency->name, percentile); }

absl::StatusOr<Objective> ParseObjective(const std::string& what, const std::string& text) {
  const std::string_view whole = text;
  const size_t first = whole.find(':');
  const size_t second = first == std::string_view::npos ? first : whole.find(':', first + 1);
  if (second != std::string_view::npos) {
    const Latency* const latency = FindLatency(whole.substr(0, first));
    const auto percentile = ParsePercentile(whole.substr(first + 1, second - first - 1));
    const auto limit_ms = ParseMs(whole.substr(second + 1));
    if (latency != nullptr && percentile && limit_ms) {
      return Objective{.latency = latency, .percentile = *percentile, .limit_ms = *limit_ms};
    }
  }
  return absl::InvalidArgumentError(fmt::format(
      "{} is '{}'; accepted: LATENCY:PERCENTILE:LIMIT as e2e:p99:200ms, LATENCY ttft, itl or e2e, "
      "PERCENTILE p1 to p100, LIMIT 1us to 3600s",
      what, Shorten(text)));
}

}  // namespace beamline::loadtest
