#include "loadtest/report/compare.h"

#include <cmath>
#include <utility>

#include "fmt/format.h"
#include "loadtest/report/text_table.h"

namespace beamline::loadtest {
namespace {

struct NamedLatency {
  const char* name;
  Histogram Result::*histogram;
};

constexpr NamedLatency kCompared[] = {{"first token", &Result::time_to_first_token},
                                      {"time per token", &Result::time_per_output_token},
                                      {"between tokens", &Result::inter_token},
                                      {"end to end", &Result::end_to_end}};
constexpr std::pair<const char*, double> kPercentiles[] = {
    {"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}};

double MsAt(const Histogram& histogram, double quantile) {
  return static_cast<double>(histogram.ValueAtQuantile(quantile)) / 1e6;
}

std::string Percentiles(const Histogram& histogram) {
  if (histogram.count() == 0) return "–";
  std::string text;
  for (const auto& [name, quantile] : kPercentiles) {
    text += (text.empty() ? "" : " / ") + FormatNumber(MsAt(histogram, quantile));
  }
  return text;
}

// Collects figures of two results and judges them.
class Judge {
 public:
  explicit Judge(std::optional<double> threshold) : threshold_(threshold) {}

  // growth_is_better: true for rates; false for latencies.
  void Add(std::string figure, double base, double other, bool growth_is_better) {
    FigureChange change{.figure = std::move(figure), .base = base, .other = other};
    if (base > 0) change.change = (other - base) / base;
    if (threshold_ && change.change && std::abs(*change.change) > *threshold_) {
      const bool grew = *change.change > 0;
      (grew == growth_is_better ? change.is_better : change.is_worse) = true;
    }
    changes_.push_back(std::move(change));
  }

  // From a base of 0 any error would be infinite growth, so small differences do not count.
  void AddErrors(double base, double other) {
    Add("errors, % of the requests", base * 100, other * 100, false);
    FigureChange& errors = changes_.back();
    const bool counts = std::abs(other - base) >= kLeastErrorShare;
    if (threshold_ && base == 0 && counts) errors.is_worse = true;
    if (!counts) errors.is_worse = errors.is_better = false;
  }

  std::vector<FigureChange> Take() { return std::move(changes_); }

 private:
  const std::optional<double> threshold_;
  std::vector<FigureChange> changes_;
};

std::string ChangeText(const FigureChange& change) {
  if (change.change) return fmt::format("{:+.1f}%", *change.change * 100);
  return change.other > 0 ? "new" : "–";
}

// Throughput follows the load. If the loads differ, it does not describe the server.
std::string LoadNote(const Result& base, const Result& other) {
  if (base.arrivals == other.arrivals && base.asked_rate == other.asked_rate) return "";
  const auto load = [](const Result& result) {
    return result.asked_rate > 0 ? FormatNumber(result.asked_rate) + "/s asked" : result.arrivals;
  };
  return fmt::format("  The loads differ ({}, {}), and rates with them.\n", load(base),
                     load(other));
}

std::string ChangesTable(const Result& base, const Result& other,
                         const std::vector<FigureChange>& changes) {
  TextTable table({"figure", base.label, other.label, "difference", ""}, /*last_is_text=*/true);
  for (const FigureChange& one : changes) {
    table.AddRow({one.figure, FormatNumber(one.base), FormatNumber(one.other), ChangeText(one),
                  one.is_worse    ? "worse"
                  : one.is_better ? "better"
                                  : ""});
  }
  return table.ToString() + LoadNote(base, other);
}

}  // namespace

std::vector<std::vector<std::string>> ComparisonRows(const std::vector<Result>& results) {
  std::vector<std::vector<std::string>> rows = {
      {"result", "asked/s", "sent/s", "requests/s", "tokens/s", "good/s", "errors",
       "first token p50 / p90 / p99 ms", "time per token", "end to end"}};
  for (const Result& result : results) {
    rows.push_back({result.label,
                    result.asked_rate > 0 ? FormatNumber(result.asked_rate) : "closed",
                    FormatNumber(result.achieved_rate), FormatNumber(result.requests_per_s),
                    FormatNumber(result.output_tokens_per_s),
                    result.has_slo ? FormatNumber(result.good_per_s) : "–",
                    std::to_string(result.num_errors), Percentiles(result.time_to_first_token),
                    Percentiles(result.time_per_output_token), Percentiles(result.end_to_end)});
  }
  return rows;
}

std::vector<FigureChange> FigureChanges(const Result& base, const Result& other,
                                        std::optional<double> threshold) {
  Judge judge(threshold);
  for (const auto& [name, histogram] : kCompared) {
    const Histogram& before = base.*histogram;
    const Histogram& after = other.*histogram;
    if (before.count() == 0 || after.count() == 0) continue;
    for (const auto& [percentile, quantile] : kPercentiles) {
      judge.Add(fmt::format("{} {}, ms", name, percentile), MsAt(before, quantile),
                MsAt(after, quantile), /*growth_is_better=*/false);
    }
  }
  judge.Add("requests/s", base.requests_per_s, other.requests_per_s, true);
  if (base.output_tokens_per_s > 0 || other.output_tokens_per_s > 0) {
    judge.Add("output tokens/s", base.output_tokens_per_s, other.output_tokens_per_s, true);
  }
  if (base.has_slo && other.has_slo) {
    judge.Add("good requests/s", base.good_per_s, other.good_per_s, true);
  }
  judge.AddErrors(base.ErrorShare(), other.ErrorShare());
  return judge.Take();
}

ResultComparison Compare(const std::vector<Result>& results, std::optional<double> threshold) {
  std::vector<std::vector<std::string>> rows = ComparisonRows(results);
  TextTable table(std::move(rows[0]));
  for (size_t i = 1; i < rows.size(); ++i) table.AddRow(std::move(rows[i]));
  ResultComparison comparison{.text = table.ToString()};
  for (size_t i = 1; i < results.size(); ++i) {
    const auto changes = FigureChanges(results[0], results[i], threshold);
    comparison.text += '\n' + ChangesTable(results[0], results[i], changes);
    if (!threshold) continue;
    std::vector<std::string> worse;
    for (const FigureChange& one : changes) {
      if (one.is_worse) worse.push_back(fmt::format("{} {}", one.figure, ChangeText(one)));
    }
    comparison.is_worse |= !worse.empty();
    comparison.text +=
        worse.empty() ? fmt::format("  No figure of {} is worse by more than {:g}%.\n",
                                    results[i].label, *threshold * 100)
                      : fmt::format("  {} is worse by more than {:g}%: {}.\n", results[i].label,
                                    *threshold * 100, fmt::join(worse, "; "));
  }
  return comparison;
}

}  // namespace beamline::loadtest
