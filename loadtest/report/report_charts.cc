#include "loadtest/report/report_charts.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "fmt/format.h"
#include "loadtest/report/names.h"

namespace beamline::loadtest {
namespace {

using Points = std::vector<std::pair<double, double>>;

constexpr double kNoValue = std::numeric_limits<double>::quiet_NaN();
// More points would not be visible; in long runs adjacent seconds are merged.
constexpr size_t kMostPoints = 600;
// If the run ends within a second, the second has a rate only if at least this share of it remains.
constexpr double kLeastOfSecond = 0.5;

double ToMs(int64_t ns) { return static_cast<double>(ns) / 1e6; }

// One latency by percentile: of all requests, and of each class if there are several.
Chart LatencyByPercentile(const RunReport& report, const std::string& title,
                          Histogram ClassSummary::*histogram) {
  Chart chart = SpectrumChart(title);
  for (const ClassSummary& one : report.summary.classes) {
    if ((one.*histogram).count() == 0) continue;
    chart.series.push_back({ClassTitle(one), PercentilePoints(one.*histogram)});
  }
  // If only one class has this latency, it equals all requests.
  if (chart.series.size() == 1) chart.series.clear();
  chart.series.push_back(
      {.name = "all requests",
       .points = PercentilePoints(report.summary.total.*histogram),
       .style = chart.series.empty() ? SeriesStyle::kData : SeriesStyle::kReference});
  return chart;
}

double EndOfSending(const RunReport& report) {
  return report.load.warmup_s + report.load.duration_s;
}

// The warm-up, and the time after sending ended.
std::vector<ChartBand> Bands(const RunReport& report) {
  std::vector<ChartBand> bands;
  const auto end_s = static_cast<double>(report.summary.seconds.size());
  if (report.load.warmup_s > 0) {
    bands.push_back({"warm-up", 0, report.load.warmup_s});
  }
  if (!report.interrupted && end_s > EndOfSending(report)) {
    bands.push_back({"last answers", EndOfSending(report), end_s});
  }
  return bands;
}

Chart TimeChart(const RunReport& report, const std::string& title, const std::string& y_title) {
  return {.title = title,
          .x_title = "seconds since the start",
          .y_title = y_title,
          .x_end = static_cast<double>(report.summary.seconds.size()),
          .bands = Bands(report)};
}

using Value = std::function<double(size_t)>;

// A point in the middle of each second. Long runs merge several seconds: into their mean, or their
// largest value for latencies.
Points TimePoints(size_t num_seconds, bool largest, const Value& value) {
  const size_t group = std::max<size_t>(1, (num_seconds + kMostPoints - 1) / kMostPoints);
  Points points;
  for (size_t begin = 0; begin < num_seconds; begin += group) {
    const size_t end = std::min(num_seconds, begin + group);
    double sum = 0, most = 0;
    size_t count = 0;
    for (size_t i = begin; i < end; ++i) {
      const double one = value(i);
      if (!std::isfinite(one)) continue;
      sum += one;
      most = std::max(most, one);
      ++count;
    }
    const double middle = static_cast<double>(begin + end) / 2;
    const double mean = count > 0 ? sum / static_cast<double>(count) : kNoValue;
    points.emplace_back(middle, count > 0 && largest ? most : mean);
  }
  return points;
}

Chart RateChart(const RunReport& report) {
  const auto& seconds = report.summary.seconds;
  const auto& asked = report.load.asked_per_s;
  Chart chart = TimeChart(report, "Requests", "requests/s");
  const auto add = [&](const char* name, const Value& value) {
    chart.series.push_back({name, TimePoints(seconds.size(), false, value)});
  };
  // The share of a second in which requests are sent.
  const auto part = [&](size_t i) {
    return std::min(1.0, EndOfSending(report) - static_cast<double>(i));
  };
  add("asked for", [&](size_t i) {
    return i < asked.size() && part(i) >= kLeastOfSecond ? asked[i] : kNoValue;
  });
  add("sent", [&](size_t i) {
    const auto sent = static_cast<double>(seconds[i].sent);
    if (part(i) >= kLeastOfSecond) return sent / part(i);
    return sent > 0 && part(i) <= 0 ? sent : kNoValue;
  });
  add("ended well", [&](size_t i) { return static_cast<double>(seconds[i].ok); });
  return chart;
}

// Requests that failed or were cut; absent if there were none.
std::optional<Chart> FailureChart(const RunReport& report) {
  const auto& seconds = report.summary.seconds;
  Chart chart = TimeChart(report, "Requests that did not end well", "requests/s");
  constexpr std::pair<const char*, int64_t Second::*> kLines[] = {
      {"failed", &Second::error}, {"cancelled or cut", &Second::cut}};
  for (const auto& [name, count] : kLines) {
    const bool any = std::any_of(seconds.begin(), seconds.end(),
                                 [count = count](const Second& one) { return one.*count > 0; });
    if (!any) continue;
    chart.series.push_back({name, TimePoints(seconds.size(), false, [&, count = count](size_t i) {
                              return static_cast<double>(seconds[i].*count);
                            })});
  }
  return chart.series.empty() ? std::nullopt : std::optional(std::move(chart));
}

// Requests that are sent but not finished at the end of each second.
Chart OpenChart(const RunReport& report) {
  std::vector<double> open;
  int64_t now = 0;
  for (const Second& second : report.summary.seconds) {
    now += second.sent - second.ok - second.error - second.cut;
    open.push_back(static_cast<double>(now));
  }
  Chart chart = TimeChart(report, "Open requests", "requests at the second's end");
  chart.series = {{"open", TimePoints(open.size(), true, [&](size_t i) { return open[i]; })}};
  return chart;
}

Chart LatencyChart(const RunReport& report, const std::string& title,
                   LatencyPoint Second::*latency) {
  const auto& seconds = report.summary.seconds;
  Chart chart = TimeChart(report, title, "ms (logarithmic)");
  chart.log_y = true;
  constexpr std::pair<const char*, int64_t LatencyPoint::*> kLines[] = {
      {"p50", &LatencyPoint::p50}, {"p90", &LatencyPoint::p90}, {"p99", &LatencyPoint::p99}};
  for (const auto& [name, figure] : kLines) {
    chart.series.push_back({name, TimePoints(seconds.size(), true, [&, figure = figure](size_t i) {
                              const LatencyPoint& point = seconds[i].*latency;
                              return point.count > 0 ? ToMs(point.*figure) : kNoValue;
                            })});
  }
  return chart;
}

// There is about one sample per second; those of long runs are merged like seconds.
Points SamplePoints(const RunReport& report, const std::function<double(const ServerSample&)>& of) {
  const auto& samples = report.server->samples;
  Points points = TimePoints(samples.size(), false, [&](size_t i) { return of(samples[i]); });
  const size_t group = std::max<size_t>(1, (samples.size() + kMostPoints - 1) / kMostPoints);
  for (size_t i = 0; i < points.size(); ++i) points[i].first = samples[i * group].time_s;
  return points;
}

}  // namespace

std::vector<std::pair<double, double>> PercentilePoints(const Histogram& histogram) {
  constexpr int kSteps = 150;
  constexpr double kMostNines = 5;
  std::vector<std::pair<double, double>> points;
  if (histogram.count() == 0) return points;
  const double most = std::log10(static_cast<double>(histogram.count()));
  const double nines = std::clamp(most, 1.0, kMostNines);
  for (int i = 0; i <= kSteps; ++i) {
    const double share = 1 - std::pow(10, -nines * i / kSteps);
    const bool is_last = i == kSteps && most <= kMostNines;
    points.emplace_back(share, ToMs(is_last ? histogram.max() : histogram.ValueAtQuantile(share)));
  }
  return points;
}

Chart SpectrumChart(const std::string& title) {
  return {.title = title,
          .x_title = "percentile (logarithmic towards 100%)",
          .y_title = "latency (ms, logarithmic)",
          .x_axis = XAxis::kPercentile,
          .log_y = true};
}

std::vector<Chart> SpectrumCharts(const RunReport& report) {
  constexpr std::pair<const char*, Histogram ClassSummary::*> kSubjects[] = {
      {"First token, by percentile", &ClassSummary::time_to_first_token},
      {"Time per token, by percentile", &ClassSummary::time_per_output_token},
      {"Between tokens, by percentile", &ClassSummary::inter_token},
      {"End to end, by percentile", &ClassSummary::end_to_end}};
  std::vector<Chart> charts;
  for (const auto& [title, histogram] : kSubjects) {
    if ((report.summary.total.*histogram).count() == 0) continue;
    charts.push_back(LatencyByPercentile(report, title, histogram));
  }
  return charts;
}

std::vector<Chart> TimeCharts(const RunReport& report) {
  const auto& seconds = report.summary.seconds;
  std::vector<Chart> charts = {
      RateChart(report), OpenChart(report),
      LatencyChart(report, "First token", &Second::time_to_first_token),
      LatencyChart(report, "Time per token", &Second::time_per_output_token),
      LatencyChart(report, "End to end", &Second::end_to_end)};
  if (auto failures = FailureChart(report)) charts.insert(charts.begin() + 1, *std::move(failures));
  const bool has_tokens = std::any_of(seconds.begin(), seconds.end(),
                                      [](const Second& second) { return second.tokens > 0; });
  if (has_tokens) {
    Chart tokens = TimeChart(report, "Output tokens", "tokens/s");
    tokens.series.push_back({"received", TimePoints(seconds.size(), false, [&](size_t i) {
                               return static_cast<double>(seconds[i].tokens);
                             })});
    charts.push_back(std::move(tokens));
  }
  return charts;
}

std::vector<Chart> ServerCharts(const RunReport& report) {
  if (!report.server || report.server->samples.empty()) return {};
  std::vector<Chart> charts;
  const auto add = [&](const char* title, const char* unit, const char* name,
                       const std::function<double(const ServerSample&)>& of) {
    charts.push_back(TimeChart(report, title, unit));
    charts.back().series = {{name, SamplePoints(report, of)}};
  };
  add("Server: queue", "requests", "waiting requests",
      [](const ServerSample& sample) { return sample.waiting; });
  add("Server: running", "sequences", "running sequences",
      [](const ServerSample& sample) { return sample.running; });
  add("Server: batch", "sequences a step", "mean of the steps",
      [](const ServerSample& sample) { return sample.step_sequences.value_or(kNoValue); });
  add("Server: tokens generated", "tokens/s", "generated",
      [](const ServerSample& sample) { return sample.tokens_per_s.value_or(kNoValue); });
  return charts;
}

}  // namespace beamline::loadtest
