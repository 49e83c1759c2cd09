#include "loadtest/report/plot.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <utility>

#include "base/file.h"
#include "fmt/format.h"
#include "loadtest/report/compare.h"
#include "loadtest/report/markup.h"
#include "loadtest/report/page_frame.h"
#include "loadtest/report/report_charts.h"

namespace beamline::loadtest {
namespace {

// The panels stand side by side over the whole width, below the legend.
constexpr double kWidth = 1200;
constexpr double kPanelHeight = 440;
constexpr double kLeft = 64;  // of a panel, for its labels
constexpr double kRight = 22;
constexpr double kTop = 40;
constexpr double kBottom = 64;
constexpr double kLegendLine = 24;
constexpr double kLegendSample = 34;
constexpr double kCharacterWidth = 8;  // rather too wide for the font's size

// Okabe and Ito's colours, which colour-blind readers can tell apart; their yellow is too light for
// a line. More results than colours have dashes.
constexpr std::array<std::string_view, 7> kColours = {"#0072B2", "#D55E00", "#009E73", "#CC79A7",
                                                      "#E69F00", "#56B4E9", "#000000"};
constexpr std::array<std::string_view, 4> kDashes = {"", "8 4", "2 3", "10 3 2 3"};

struct Metric {
  const char* title;
  const char* axis;  // of what the percentiles are
  Histogram Result::*histogram;
};

constexpr Metric kMetrics[] = {
    {"Time to first token", "percentile of requests", &Result::time_to_first_token},
    {"Inter-token latency", "percentile of gaps between tokens", &Result::inter_token},
    {"End to end", "percentile of requests", &Result::end_to_end}};

// "stroke=..." of the curve and the legend's sample of one result.
std::string Stroke(size_t index) {
  const std::string_view dash = kDashes[index / kColours.size() % kDashes.size()];
  const std::string colour(kColours[index % kColours.size()]);
  return fmt::format("stroke=\"{}\" stroke-width=\"2.5\"{}", colour,
                     dash.empty() ? "" : fmt::format(" stroke-dasharray=\"{}\"", dash));
}

// The numbers 1, 2 and 5 times a power of ten; for index 0, 1, 2: 1, 2, 5; -1: 0.5.
double Step(int index) {
  constexpr std::array<double, 3> kSteps = {1, 2, 5};
  const int decade = static_cast<int>(std::floor(index / 3.0));
  return kSteps[static_cast<size_t>(index - 3 * decade)] * std::pow(10, decade);
}

// Maps percentiles and milliseconds to the pixels of one panel.
struct Axes {
  double left = 0;  // of the panel
  double top = 0;
  double width = 0;
  double num_decades = 3;  // x: 0 .. 1 - 10^-num_decades
  int low_step = 0;        // y: Step(low_step) .. Step(high_step) milliseconds
  int high_step = 3;

  double Begin() const { return left + kLeft; }
  double End() const { return left + width - kRight; }
  double Bottom() const { return top + kPanelHeight - kBottom; }
  double X(double quantile) const {
    const double decades = -std::log10(1 - quantile);
    return Begin() + std::clamp(decades / num_decades, 0.0, 1.0) * (End() - Begin());
  }
  double Y(double ms) const {
    const double low = Step(low_step), high = Step(high_step);
    const double share = std::log10(std::clamp(ms, low, high) / low) / std::log10(high / low);
    return Bottom() - share * (Bottom() - top - kTop);
  }
};

double ToMs(int64_t ns) { return static_cast<double>(ns) / 1e6; }

Axes FitAxes(const std::vector<Result>& results, const Metric& metric) {
  constexpr double kLeastMs = 1e-3;
  Axes axes;
  int64_t count = 1;
  double low = 1e18, high = kLeastMs;
  for (const Result& result : results) {
    const Histogram& histogram = result.*metric.histogram;
    if (histogram.count() == 0) continue;
    count = std::max(count, histogram.count());
    low = std::min(low, std::max(ToMs(histogram.min()), kLeastMs));
    high = std::max(high, ToMs(histogram.max()));
  }
  // One value in ten is all that shows p90: the axis ends where the data does.
  axes.num_decades = std::clamp(std::log10(static_cast<double>(count)), 1.0, 5.0);
  axes.low_step = static_cast<int>(std::floor(std::log10(low))) * 3;
  while (Step(axes.low_step + 1) <= low) ++axes.low_step;
  axes.high_step = axes.low_step + 1;
  while (Step(axes.high_step) < high) ++axes.high_step;
  return axes;
}

std::string Text(double x, double y, std::string_view attributes, std::string_view text) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\"{}{}>{}</text>\n", x, y,
                     attributes.empty() ? "" : " ", attributes, text);
}

std::string Line(double x1, double y1, double x2, double y2, std::string_view stroke) {
  return fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" {}/>\n", x1, y1,
                     x2, y2, stroke);
}

std::string DrawGrid(const Axes& axes, const Metric& metric) {
  constexpr std::string_view kGrid = "stroke=\"#ddd\"";
  constexpr int kMostLabels = 10;
  std::string svg = Text(axes.Begin(), axes.top + 22, "font-size=\"16\" font-weight=\"bold\"",
                         fmt::format("{} (ms)", metric.title));
  const bool all_labels = axes.high_step - axes.low_step < kMostLabels;
  for (int step = axes.low_step; step <= axes.high_step; ++step) {
    if (!all_labels && step % 3 != 0) continue;
    const double y = axes.Y(Step(step));
    svg += Line(axes.Begin(), y, axes.End(), y, kGrid);
    svg += Text(axes.Begin() - 8, y + 4, "text-anchor=\"end\"", fmt::format("{:g}", Step(step)));
  }
  constexpr std::array<std::pair<double, const char*>, 7> kTicks = {{{0.0, "0"},
                                                                     {0.5, "p50"},
                                                                     {0.9, "p90"},
                                                                     {0.99, "p99"},
                                                                     {0.999, "p99.9"},
                                                                     {0.9999, "p99.99"},
                                                                     {0.99999, "p99.999"}}};
  for (const auto& [quantile, label] : kTicks) {
    if (-std::log10(1 - quantile) > axes.num_decades + 1e-6) break;
    const double x = axes.X(quantile);
    svg += Line(x, axes.top + kTop, x, axes.Bottom(), kGrid);
    svg += Text(x, axes.Bottom() + 20, "text-anchor=\"middle\"", label);
  }
  svg += Text((axes.Begin() + axes.End()) / 2, axes.Bottom() + 44,
              "text-anchor=\"middle\" fill=\"#444\"", metric.axis);
  const double middle = (axes.top + kTop + axes.Bottom()) / 2;
  svg += Text(axes.left + 14, middle,
              fmt::format("text-anchor=\"middle\" fill=\"#444\" transform=\"rotate(-90 {:.1f} "
                          "{:.1f})\"",
                          axes.left + 14, middle),
              "milliseconds");
  return svg;
}

// Ends where the result's own data does, at its largest value.
std::string DrawCurve(const Axes& axes, const Histogram& histogram, const std::string& label,
                      size_t index) {
  if (histogram.count() == 0) return "";
  constexpr int kSteps = 200;
  const double most = std::log10(static_cast<double>(histogram.count()));
  const double decades = std::min(axes.num_decades, most);
  std::string points;
  for (int i = 0; i <= kSteps; ++i) {
    const double quantile = 1 - std::pow(10, -decades * i / kSteps);
    const int64_t ns = i == kSteps && most <= axes.num_decades
                           ? histogram.max()
                           : histogram.ValueAtQuantile(quantile);
    points += fmt::format("{:.1f},{:.1f} ", axes.X(quantile), axes.Y(ToMs(ns)));
  }
  return fmt::format(
      "<polyline fill=\"none\" {} stroke-linejoin=\"round\" points=\"{}\"><title>{}</title>"
      "</polyline>\n",
      Stroke(index), points, Escape(label));
}

// Sets `height` to what the legend takes.
std::string DrawLegend(const std::vector<std::string>& labels, double& height) {
  std::string svg;
  double x = kLeft;
  double y = kLegendLine;
  for (size_t i = 0; i < labels.size(); ++i) {
    const double width =
        kLegendSample + 40 + kCharacterWidth * static_cast<double>(labels[i].size());
    if (x > kLeft && x + width > kWidth) {
      x = kLeft;
      y += kLegendLine;
    }
    svg += Line(x, y, x + kLegendSample, y, Stroke(i));
    svg += Text(x + kLegendSample + 8, y + 5, "font-size=\"14\"", Escape(labels[i]));
    x += width;
  }
  height = y + kLegendLine;
  return svg;
}

// What the legend and the table call the results: those of one name are numbered.
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

// The comparison's numbers.
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

}  // namespace

std::string PlotSvg(const std::vector<Result>& results) {
  const std::vector<std::string> labels = Labels(results);
  std::vector<const Metric*> metrics;
  for (const Metric& metric : kMetrics) {
    const bool is_there = std::any_of(results.begin(), results.end(), [&](const Result& result) {
      return (result.*metric.histogram).count() > 0;
    });
    if (is_there) metrics.push_back(&metric);
  }
  double legend_height = 0;
  std::string body = DrawLegend(labels, legend_height);
  for (size_t panel = 0; panel < metrics.size(); ++panel) {
    Axes axes = FitAxes(results, *metrics[panel]);
    axes.width = kWidth / static_cast<double>(metrics.size());
    axes.left = axes.width * static_cast<double>(panel);
    axes.top = legend_height;
    body += DrawGrid(axes, *metrics[panel]);
    for (size_t i = 0; i < results.size(); ++i) {
      body += DrawCurve(axes, results[i].*metrics[panel]->histogram, labels[i], i);
    }
  }
  if (metrics.empty()) {
    body += Text(kLeft, legend_height + kLegendLine, "font-size=\"14\"",
                 "No request ended well, so there are no latencies.");
  }
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
      "viewBox=\"0 0 {0:.0f} {1:.0f}\" font-family=\"sans-serif\" font-size=\"12\">\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n{2}</svg>\n",
      kWidth, legend_height + (metrics.empty() ? 2 * kLegendLine : kPanelHeight), body);
}

std::string PlotHtml(const std::vector<Result>& results) {
  const std::vector<std::string> labels = Labels(results);
  std::vector<Chart> charts;
  for (const Metric& metric : kMetrics) {
    Chart chart = SpectrumChart(metric.title);
    for (size_t i = 0; i < results.size(); ++i) {
      chart.series.push_back({labels[i], PercentilePoints(results[i].*metric.histogram)});
    }
    charts.push_back(std::move(chart));
  }
  std::string figures = DrawCharts(charts);
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
