#include "loadtest/search/probe.h"

#include <cmath>
#include <utility>

#include "fmt/format.h"
#include "loadtest/report/text_table.h"

namespace beamline::loadtest {
namespace {

std::string Errors(const Probe& probe, const ProbeLimits& limits) {
  const ClassSummary& total = probe.total;
  const int64_t errors = total.Count(Ending::kError), unanswered = total.Count(Ending::kStopped);
  const auto requests = static_cast<double>(total.NumRequests());
  if (static_cast<double>(errors + unanswered) <= limits.max_error_share * requests) return "";
  std::string text = fmt::format("{} of {} requests failed", errors, total.NumRequests());
  if (errors == 0) {
    text = fmt::format("{} of {} requests had no answer in time", unanswered, total.NumRequests());
  }
  std::pair<std::string, int64_t> most;
  for (const auto& [code, count] : total.codes) {
    // Requests that the run's end cuts off are CANCELLED.
    const bool is_error = code != "OK" && (code != "CANCELLED" || errors > unanswered);
    if (is_error && count > most.second) most = {code, count};
  }
  if (errors > 0 && most.second > 0) text += fmt::format(": {} x {}", most.second, most.first);
  return text;
}

std::string Throughput(const Probe& probe, const ProbeLimits& limits) {
  if (probe.answered_per_s >= limits.min_answered * probe.sent_per_s) return "";
  return fmt::format("answered {}/s of {}/s", FormatNumber(probe.answered_per_s),
                     FormatNumber(probe.sent_per_s));
}

std::string Times(const Probe& probe, const ProbeLimits& limits) {
  for (const Objective& objective : limits.objectives) {
    if ((probe.total.*objective.latency->histogram).count() == 0) {
      return fmt::format("{} was not measured", objective.latency->name);
    }
    const double value_ms = objective.ValueMs(probe.total);
    if (value_ms <= objective.limit_ms) continue;
    return fmt::format("{} is {} ms, limit {:g} ms", objective.Name(), FormatNumber(value_ms),
                       objective.limit_ms);
  }
  return "";
}

std::string Lateness(const Probe& probe, const ProbeLimits& limits) {
  const auto ms = static_cast<double>(probe.total.lateness.ValueAtQuantile(0.99)) / 1e6;
  if (ms <= limits.max_lateness_ms) return "";
  return fmt::format("the load generator is late: p99 {} ms, limit {:g} ms", FormatNumber(ms),
                     limits.max_lateness_ms);
}

}  // namespace

void Judge(const ProbeLimits& limits, Probe& probe) {
  probe.why.clear();
  if (probe.interrupted) probe.why = "cut short";
  if (probe.why.empty() && probe.total.NumRequests() == 0) probe.why = "no request was sent";
  // Checked first: a late sender lowers the real load and distorts all other figures.
  for (const auto& check : {Lateness, Errors, Throughput, Times}) {
    if (probe.why.empty()) probe.why = check(probe, limits);
  }
  probe.holds = probe.why.empty();
}

}  // namespace beamline::loadtest
