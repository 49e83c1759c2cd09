#include <algorithm>
#include <numeric>
#include <utility>

#include "fmt/format.h"
#include "loadtest/report/text_table.h"
#include "loadtest/search/knee.h"
#include "loadtest/search/search_report.h"

namespace beamline::loadtest {
namespace {

// "p50 / p99".
std::string Percentiles(const Histogram& histogram) {
  if (histogram.count() == 0) return "–";
  return fmt::format("{} / {}", FormatMs(static_cast<double>(histogram.ValueAtQuantile(0.5))),
                     FormatMs(static_cast<double>(histogram.ValueAtQuantile(0.99))));
}

std::string Verdict(const Probe& probe) {
  if (probe.interrupted) return "cut short";
  return probe.holds ? "holds" : "fails: " + probe.why;
}

}  // namespace

const char* SearchEndName(SearchEnd end) {
  switch (end) {
    case SearchEnd::kFound:
      return "found";
    case SearchEnd::kLowestFails:
      return "lowest_fails";
    case SearchEnd::kHighestHolds:
      return "highest_holds";
    case SearchEnd::kOutOfTime:
      return "out_of_time";
    case SearchEnd::kInterrupted:
      return "interrupted";
    case SearchEnd::kBroken:
      return "broken";
  }
  return "unknown";
}

std::vector<size_t> SearchReport::ByRate() const {
  std::vector<size_t> order(probes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [this](size_t a, size_t b) { return probes[a].rate < probes[b].rate; });
  return order;
}

std::vector<size_t> SearchReport::Curve() const {
  std::vector<size_t> curve;
  for (const size_t i : ByRate()) {
    if (probes[i].interrupted) continue;
    if (!curve.empty() && probes[curve.back()].rate == probes[i].rate) curve.pop_back();
    curve.push_back(i);
  }
  return curve;
}

std::vector<const Latency*> SearchReport::Measured() const {
  std::vector<const Latency*> measured;
  for (const Latency& latency : kLatencies) {
    const bool any = std::ranges::any_of(
        probes, [&](const Probe& probe) { return (probe.total.*latency.histogram).count() > 0; });
    if (any) measured.push_back(&latency);
  }
  return measured;
}

std::optional<size_t> SearchReport::Highest() const {
  std::optional<size_t> highest;
  for (const size_t i : ByRate()) {
    if (probes[i].holds) highest = i;
  }
  return highest;
}

std::optional<size_t> SearchReport::LowestFailing() const {
  const auto highest = Highest();
  std::optional<size_t> failing;
  for (const size_t i : ByRate()) {
    const Probe& probe = probes[i];
    if (probe.holds || probe.interrupted) continue;
    if (highest && probe.rate <= probes[*highest].rate) continue;  // it held in another probe
    if (failing && probe.rate > probes[*failing].rate) break;
    failing = i;
  }
  return failing;
}

Objective SearchReport::KneeFigure() const {
  if (!limits.objectives.empty()) return limits.objectives.front();
  return {.latency = &kLatencies.back(), .percentile = 99};
}

std::optional<size_t> SearchReport::Knee() const {
  const Objective figure = KneeFigure();
  std::vector<size_t> indices;
  std::vector<std::pair<double, double>> points;
  for (const size_t i : Curve()) {
    const Probe& probe = probes[i];
    if ((probe.total.*figure.latency->histogram).count() == 0) continue;
    indices.push_back(i);
    points.emplace_back(probe.rate, figure.ValueMs(probe.total));
  }
  const auto knee = FindKnee(points);
  return knee ? std::optional(indices[*knee]) : std::nullopt;
}

bool SearchReport::HasVerdict() const {
  return std::ranges::any_of(probes, [](const Probe& probe) { return probe.IsMeasured(); });
}

bool SearchReport::IsLowerBound() const { return Highest() && !LowestFailing(); }

std::string SearchReport::Finding() const {
  if (!HasVerdict()) {
    return fmt::format("Nothing was measured: {}.",
                       probes.empty() ? "no probe was run" : "no probe ended with requests sent");
  }
  const auto highest = Highest(), failing = LowestFailing();
  if (IsLowerBound()) {
    return fmt::format("At least {}/s hold: no rate that was probed fails.",
                       FormatNumber(probes[*highest].rate));
  }
  std::string text = "No rate holds.";
  if (highest) {
    text = fmt::format("The highest rate that holds is {}/s.", FormatNumber(probes[*highest].rate));
  }
  if (failing) {
    text +=
        fmt::format(" {}/s fails: {}.", FormatNumber(probes[*failing].rate), probes[*failing].why);
  }
  return text;
}

std::string SearchReport::Conclusion() const {
  const std::string text = Finding();
  switch (end) {
    case SearchEnd::kFound:
      return text;
    case SearchEnd::kLowestFails:
      if (!HasVerdict()) return text;
      return text + " It is the lowest rate of the search; --min-rate lowers it.";
    case SearchEnd::kHighestHolds:
      return text + " It is the top of the range, and no limit: --max-rate raises it.";
    case SearchEnd::kOutOfTime:
      if (probes.empty()) {
        return text + fmt::format(" The first one takes {:.3g} s, and --max-time is {:g} s.",
                                  first_probe_s, max_time_s);
      }
      return text + fmt::format(" The search ended early, after --max-time of {:g} s.", max_time_s);
    case SearchEnd::kInterrupted:
      return text + " The search was interrupted.";
    case SearchEnd::kBroken:
      return text + " The search broke off: " + fault;
  }
  return text;
}

std::string FormatProbe(const Probe& probe) {
  return fmt::format("{}/s {}; end to end p50 / p99 {} ms", FormatNumber(probe.rate),
                     Verdict(probe), Percentiles(probe.total.end_to_end));
}

std::string FormatSearch(const SearchReport& report) {
  std::vector<std::string> header = {"asked/s", "sent/s", "answered/s", "errors", "no answer"};
  for (const Latency* latency : report.Measured()) {
    header.push_back(fmt::format("{}{}", latency->name, header.size() == 5 ? " p50 / p99 ms" : ""));
  }
  header.emplace_back("verdict");
  TextTable table(std::move(header), /*last_is_text=*/true);
  for (const size_t i : report.ByRate()) {
    const Probe& probe = report.probes[i];
    const ClassSummary& total = probe.total;
    std::vector<std::string> cells = {FormatNumber(probe.rate), FormatNumber(probe.sent_per_s),
                                      FormatNumber(probe.answered_per_s),
                                      std::to_string(total.Count(Ending::kError)),
                                      std::to_string(total.Count(Ending::kStopped))};
    for (const Latency* latency : report.Measured()) {
      cells.push_back(Percentiles(total.*latency->histogram));
    }
    cells.push_back(Verdict(probe));
    table.AddRow(std::move(cells));
  }
  std::string text =
      fmt::format("\n{}{} probes of {} in {:.0f} s\n\n{}  {}\n",
                  report.label.empty() ? "" : report.label + ": ", report.probes.size(),
                  report.environment.target, report.elapsed_s,
                  report.probes.empty() ? "" : table.ToString() + "\n", report.Conclusion());
  if (const auto knee = report.Knee()) {
    text += fmt::format("  The knee of the curve of {} is at {}/s.\n", report.KneeFigure().Name(),
                        FormatNumber(report.probes[*knee].rate));
  }
  return text;
}

}  // namespace beamline::loadtest
