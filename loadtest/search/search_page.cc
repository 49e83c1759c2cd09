#include "loadtest/search/search_page.h"

#include <limits>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "loadtest/report/chart.h"
#include "loadtest/report/markup.h"
#include "loadtest/report/page_frame.h"
#include "loadtest/report/page_parts.h"
#include "loadtest/search/search_json.h"

namespace beamline::loadtest {
namespace {

constexpr double kNoValue = std::numeric_limits<double>::quiet_NaN();

class Page {
 public:
  explicit Page(const SearchReport& report) : report_(report), figures_(ToJson(report)) {}

  std::string ToHtml() const;

 private:
  std::string Heading() const;
  std::string Summary() const;
  Chart RateChart(const std::string& title, const std::string& y_title) const;
  Chart LatencyChart(const Latency& latency) const;
  Chart ThroughputChart() const;
  std::string Curves() const;
  std::string Probes() const;
  std::string Verdict(size_t probe) const;
  std::string WhatRan() const;

  const SearchReport& report_;
  const JsonFigures figures_;
};

std::string Title(const SearchReport& report) {
  return report.label.empty() ? "Highest rate of " + report.environment.target
                              : "Highest rate: " + report.label;
}

std::string Page::Heading() const {
  return fmt::format(
      "<h1>{}</h1>\n<p class=\"soft\">{} arrivals, {} probes in {:.0f} s<br/>{}"
      "</p>\n",
      Escape(Title(report_)), Escape(report_.load.arrivals), figures_.Figure("/search/probes"),
      report_.elapsed_s, DrawWhere(report_.environment));
}

std::string Page::Summary() const {
  const auto highest = report_.Highest();
  std::vector<Tile> tiles = {
      {.figure = "none",
       .name = report_.HasVerdict() ? "requests/s, the highest rate that holds" : "was measured",
       .bad = true}};
  if (highest) {
    const bool is_bound = report_.IsLowerBound();
    tiles = {{.figure = (is_bound ? "≥ " : "") + figures_.Figure("/highest/rate_per_s"),
              .name = is_bound ? "requests/s hold, and no rate that was probed fails"
                               : "requests/s, the highest rate that holds"}};
  }
  if (report_.Knee()) {
    tiles.push_back({figures_.Figure("/knee/rate_per_s"),
                     "requests/s, the knee of " + Escape(report_.KneeFigure().Name())});
  }
  for (size_t i = 0; highest && i < report_.limits.objectives.size(); ++i) {
    tiles.push_back(
        {figures_.Figure(fmt::format("/probes/{}/objectives_ms/{}", *highest, i)),
         fmt::format("ms {} at that rate, of {} allowed",
                     Escape(report_.limits.objectives[i].Name()),
                     figures_.Figure(fmt::format("/limits/objectives/{}/limit_ms", i)))});
  }
  if (highest) {
    tiles.push_back({figures_.Figure(fmt::format("/probes/{}/answered_per_s", *highest)),
                     "requests/s answered at that rate"});
  }
  return DrawTiles(tiles) + "<h2>Result</h2>\n" +
         Card("<p>" + Escape(report_.Conclusion()) + "</p>");
}

Chart Page::RateChart(const std::string& title, const std::string& y_title) const {
  Chart chart{.title = title, .x_title = "requests/s asked for", .y_title = y_title, .dots = true};
  const auto highest = report_.Highest(), knee = report_.Knee();
  if (highest && knee && *highest == *knee) {
    chart.marks = {{"highest rate that holds, and knee", report_.probes[*highest].rate}};
    return chart;
  }
  if (highest) chart.marks.push_back({"highest rate that holds", report_.probes[*highest].rate});
  if (knee) chart.marks.push_back({"knee", report_.probes[*knee].rate});
  return chart;
}

Chart Page::LatencyChart(const Latency& latency) const {
  Chart chart = RateChart(std::string("Latency: ") + latency.name, "ms (logarithmic)");
  chart.log_y = true;
  const std::vector<size_t> order = report_.Curve();
  for (const auto& [name, quantile] :
       {std::pair("p50", 0.5), std::pair("p90", 0.9), std::pair("p99", 0.99)}) {
    ChartSeries series{.name = name};
    for (const size_t i : order) {
      const Histogram& histogram = report_.probes[i].total.*latency.histogram;
      const auto ms = static_cast<double>(histogram.ValueAtQuantile(quantile)) / 1e6;
      series.points.emplace_back(report_.probes[i].rate, histogram.count() > 0 ? ms : kNoValue);
    }
    chart.series.push_back(std::move(series));
  }
  if (order.empty()) return chart;
  for (const Objective& objective : report_.limits.objectives) {
    if (objective.latency != &latency) continue;
    chart.series.push_back({.name = fmt::format("objective: p{:g} ≤ {:g} ms", objective.percentile,
                                                objective.limit_ms),
                            .points = {{0, objective.limit_ms},
                                       {report_.probes[order.back()].rate, objective.limit_ms}},
                            .style = SeriesStyle::kLimit});
  }
  return chart;
}

Chart Page::ThroughputChart() const {
  Chart chart = RateChart("Answered over asked for", "requests/s");
  chart.series = {{.name = "answered"}, {.name = "sent"}, {.name = "failed or without an answer"}};
  ChartSeries asked{.name = "asked for", .points = {{0, 0}}, .style = SeriesStyle::kReference};
  bool any_failed = false;
  for (const size_t i : report_.Curve()) {
    const Probe& probe = report_.probes[i];
    const int64_t failed = probe.total.Count(Ending::kError) + probe.total.Count(Ending::kStopped);
    any_failed |= failed > 0;
    chart.series[0].points.emplace_back(probe.rate, probe.answered_per_s);
    chart.series[1].points.emplace_back(probe.rate, probe.sent_per_s);
    chart.series[2].points.emplace_back(probe.rate, static_cast<double>(failed) / probe.duration_s);
    asked.points.emplace_back(probe.rate, probe.rate);
  }
  if (!any_failed) chart.series.pop_back();
  chart.series.push_back(std::move(asked));
  return chart;
}

std::string Page::Curves() const {
  std::vector<Chart> charts;
  for (const Latency* latency : report_.Measured()) charts.push_back(LatencyChart(*latency));
  if (!report_.Curve().empty()) charts.push_back(ThroughputChart());
  const std::string figures = DrawCharts(charts);
  return figures.empty() ? "" : "<h2>Over the rate</h2>\n" + figures;
}

std::string Page::Verdict(size_t probe) const {
  std::string verdict = report_.probes[probe].holds ? "holds" : Escape(report_.probes[probe].why);
  if (report_.Highest() == probe) verdict += ", the highest";
  if (report_.Knee() == probe) verdict += "; the knee";
  return verdict;
}

// The verdict is next to the rate, where narrow screens still show it.
std::string Page::Probes() const {
  std::vector<std::string> header = {"asked/s",    "verdict:", "sent/s",
                                     "answered/s", "errors",   "no answer"};
  for (const Latency* latency : report_.Measured()) {
    for (const char* figure : {"p50", "p99"}) {
      header.push_back(fmt::format("{} {}, ms", latency->name, figure));
    }
  }
  std::string rows;
  for (const size_t i : report_.ByRate()) {
    const Probe& probe = report_.probes[i];
    const std::string place = fmt::format("/probes/{}", i);
    std::string cells;
    for (const char* figure : {"sent_per_s", "answered_per_s", "errors", "unanswered"}) {
      cells += figures_.Cell(place + "/" + figure);
    }
    for (const Latency* latency : report_.Measured()) {
      for (const char* figure : {"p50_ms", "p99_ms"}) {
        const bool any = (probe.total.*latency->histogram).count() > 0;
        cells += any ? figures_.Cell(fmt::format("{}/{}/{}", place, latency->key, figure))
                     : "<td>–</td>";
      }
    }
    rows += fmt::format("<tr><th scope=\"row\">{}</th><td class=\"text{}\">{}</td>{}</tr>\n",
                        figures_.Figure(place + "/rate_per_s"), probe.holds ? "" : " bad",
                        Verdict(i), cells);
  }
  if (rows.empty()) return "";
  return "<h2>Rates</h2>\n" + Card(Table(header, rows));
}

std::string Page::WhatRan() const {
  std::string objectives;
  for (const Objective& objective : report_.limits.objectives) {
    objectives += fmt::format("<p>{} ≤ {:g} ms</p>", Escape(objective.Name()), objective.limit_ms);
  }
  objectives += fmt::format(
      "<p>failed or without an answer ≤ {:g}% of the requests</p><p>answered ≥ {:g}% of the "
      "rate</p>"
      "<p>sender's lateness p99 ≤ {:g} ms</p>",
      report_.limits.max_error_share * 100, report_.limits.min_answered * 100,
      report_.limits.max_lateness_ms);
  const RateSearch::Range& range = report_.range;
  const std::string search = fmt::format(
      "rates of {:g}/s to {:g}/s, times {:g} until one fails, then to within {:g}%; a rate counts "
      "as failing after {} failed probes, each of at least {:g} s, after {:g} s of warm-up and "
      "{:g} s of "
      "rest",
      range.lowest, range.highest, range.growth, range.precision * 100, report_.tries,
      report_.load.duration_s, report_.load.warmup_s, report_.settle_s);
  return DrawWhatRan({{"objectives", objectives}, {"search", search}}, report_.environment,
                     report_.load.workload);
}

std::string Page::ToHtml() const {
  return FramePage(Title(report_), Heading() + Summary() + Curves() + Probes() + WhatRan());
}

}  // namespace

std::string SearchPage(const SearchReport& report) { return Page(report).ToHtml(); }

}  // namespace beamline::loadtest
