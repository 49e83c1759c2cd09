#include "loadtest/report/plot.h"

#include <algorithm>
#include <utility>

#include "base/file.h"
#include "fmt/format.h"
#include "loadtest/report/compare.h"
#include "loadtest/report/markup.h"
#include "loadtest/report/page_frame.h"
#include "loadtest/report/picture.h"
#include "loadtest/report/report_charts.h"

namespace beamline::loadtest {
namespace {

struct Metric {
  const char* title;
  Histogram Result::*histogram;
};

constexpr Metric kMetrics[] = {{"First token", &Result::time_to_first_token},
                               {"Time per token", &Result::time_per_output_token},
                               {"Between tokens", &Result::inter_token},
                               {"End to end", &Result::end_to_end}};

// Labels of the results; those with equal names are numbered.
std::vector<std::string> Labels(const std::vector<Result>& results) {
  std::vector<std::string> labels;
  for (const Result& result : results) {
    const auto same = std::count_if(results.begin(), results.end(), [&](const Result& other) {
      return other.label == result.label;
    });
    const auto before = std::count_if(
        results.data(), &result, [&](const Result& other) { return other.label == result.label; });
    labels.push_back(same > 1 ? fmt::format("{} ({})", result.label, before + 1) : result.label);
  }
  return labels;
}

// The comparison's table.
std::string DrawTable(const std::vector<Result>& results, const std::vector<std::string>& labels) {
  const auto rows = ComparisonRows(results);
  std::string html = "<div class=\"card scroll\"><table>\n<thead><tr>";
  for (const std::string& head : rows[0]) {
    html += "<th scope=\"col\">" + Escape(head) + "</th>";
  }
  html += "</tr></thead>\n<tbody>\n";
  for (size_t i = 0; i < results.size(); ++i) {
    html += "<tr><th scope=\"row\">" + Escape(labels[i]) + "</th>";
    for (size_t column = 1; column < rows[i + 1].size(); ++column) {
      html += "<td>" + Escape(rows[i + 1][column]) + "</td>";
    }
    html += "</tr>\n";
  }
  return html + "</tbody>\n</table></div>\n";
}

// A chart per latency, with a curve per result.
std::vector<Chart> Charts(const std::vector<Result>& results,
                          const std::vector<std::string>& labels) {
  std::vector<Chart> charts;
  for (const Metric& metric : kMetrics) {
    Chart chart = SpectrumChart(metric.title);
    for (size_t i = 0; i < results.size(); ++i) {
      chart.series.push_back(
          {.name = labels[i], .points = PercentilePoints(results[i].*metric.histogram)});
    }
    charts.push_back(std::move(chart));
  }
  return charts;
}

}  // namespace

std::string PlotSvg(const std::vector<Result>& results) {
  return DrawPicture(Charts(results, Labels(results)));
}

std::string PlotHtml(const std::vector<Result>& results) {
  const std::vector<std::string> labels = Labels(results);
  std::string figures = DrawCharts(Charts(results, labels));
  if (figures.empty()) figures = "<p>No request ended well, so there are no latencies.</p>\n";
  return FramePage("Load tests compared",
                   fmt::format("<h1>Load tests compared</h1>\n{}<h2>Latency by percentile</h2>\n{}",
                               DrawTable(results, labels), figures));
}

absl::Status CheckPlotPath(const std::string& path) {
  if (!path.ends_with(".svg") && !path.ends_with(".html")) {
    return absl::InvalidArgumentError(
        fmt::format("--plot is '{}'; accepted: a name in .svg or .html", path));
  }
  return CheckWritable("--plot", path);
}

absl::Status WritePlot(const std::vector<Result>& results, const std::string& path) {
  if (absl::Status status = CheckPlotPath(path); !status.ok()) return status;
  return WriteFile("--plot", path, path.ends_with(".svg") ? PlotSvg(results) : PlotHtml(results));
}

}  // namespace beamline::loadtest
