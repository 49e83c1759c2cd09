#include "loadtest/report/plot.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <string_view>

#include "fmt/format.h"
#include "loadtest/report/compare.h"
#include "loadtest/report/text_table.h"

namespace beamline::loadtest {
namespace {

constexpr double kPanelWidth = 560;
constexpr double kPanelHeight = 320;
constexpr double kLeft = 70;
constexpr double kRight = 20;
constexpr double kTop = 40;
constexpr double kBottom = 50;
constexpr double kLegendLine = 20;

// Okabe and Ito's colours, which colour-blind readers can tell apart.
constexpr std::array<std::string_view, 8> kColours = {"#0072B2", "#D55E00", "#009E73", "#CC79A7",
                                                      "#E69F00", "#56B4E9", "#000000", "#999999"};

struct Metric {
  const char* title;
  Histogram Result::*histogram;
};

constexpr Metric kMetrics[] = {{"Time to first token", &Result::time_to_first_token},
                               {"Inter-token latency", &Result::inter_token},
                               {"End to end", &Result::end_to_end}};

std::string Escape(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '<') {
      escaped += "&lt;";
    } else if (c == '&') {
      escaped += "&amp;";
    } else if (c == '"') {
      escaped += "&quot;";
    } else {
      escaped += c;
    }
  }
  return escaped;
}

// Maps percentiles and milliseconds to the pixels of one panel.
struct Axes {
  double top = 0;
  double num_decades = 3;  // x: 0 .. 1 - 10^-num_decades
  double low_ms = 1;       // powers of ten
  double high_ms = 10;

  double X(double quantile) const {
    const double decades = -std::log10(1 - quantile);
    return kLeft + std::clamp(decades / num_decades, 0.0, 1.0) * (kPanelWidth - kLeft - kRight);
  }
  double Y(double ms) const {
    const double share = std::log10(std::max(ms, low_ms) / low_ms) / std::log10(high_ms / low_ms);
    return top + kPanelHeight - kBottom - share * (kPanelHeight - kTop - kBottom);
  }
};

Axes FitAxes(const std::vector<Result>& results, const Metric& metric, double top) {
  Axes axes{.top = top};
  int64_t count = 0;
  double low = 1e18;
  double high = 0;
  for (const Result& result : results) {
    const Histogram& histogram = result.*metric.histogram;
    if (histogram.count() == 0) continue;
    count = std::max(count, histogram.count());
    low = std::min(low, static_cast<double>(std::max<int64_t>(histogram.min(), 1000)) / 1e6);
    high = std::max(high, static_cast<double>(histogram.max()) / 1e6);
  }
  // One value in ten is all that shows p90: the axis ends where the data does.
  axes.num_decades = std::clamp(std::floor(std::log10(static_cast<double>(count))), 1.0, 5.0);
  axes.low_ms = std::pow(10, std::floor(std::log10(low)));
  axes.high_ms = std::pow(10, std::ceil(std::log10(std::max(high, low * 1.01))));
  if (axes.high_ms <= axes.low_ms) axes.high_ms = 10 * axes.low_ms;
  return axes;
}

std::string DrawGrid(const Axes& axes, const Metric& metric) {
  const double bottom = axes.top + kPanelHeight - kBottom;
  std::string svg =
      fmt::format("<text x=\"{:.0f}\" y=\"{:.0f}\" font-weight=\"bold\">{} (ms)</text>\n", kLeft,
                  axes.top + kTop - 14, metric.title);
  const auto line = [&](double x1, double y1, double x2, double y2) {
    svg += fmt::format(
        "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"#ddd\"/>\n", x1, y1,
        x2, y2);
  };
  for (double ms = axes.low_ms; ms <= axes.high_ms * 1.01; ms *= 10) {
    line(kLeft, axes.Y(ms), kPanelWidth - kRight, axes.Y(ms));
    svg += fmt::format("<text x=\"{:.0f}\" y=\"{:.1f}\" text-anchor=\"end\">{:g}</text>\n",
                       kLeft - 8, axes.Y(ms) + 4, ms);
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
    line(x, axes.top + kTop, x, bottom);
    svg += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text>\n", x,
                       bottom + 18, label);
  }
  return svg;
}

std::string DrawCurve(const Axes& axes, const Histogram& histogram, std::string_view colour) {
  if (histogram.count() == 0) return "";
  constexpr int kSteps = 200;
  std::string points;
  for (int i = 0; i <= kSteps; ++i) {
    const double quantile = 1 - std::pow(10, -axes.num_decades * i / kSteps);
    const double ms = static_cast<double>(histogram.ValueAtQuantile(quantile)) / 1e6;
    points += fmt::format("{:.1f},{:.1f} ", axes.X(quantile), axes.Y(ms));
  }
  return fmt::format("<polyline fill=\"none\" stroke=\"{}\" stroke-width=\"2\" points=\"{}\"/>\n",
                     colour, points);
}

std::string DrawLegend(const std::vector<Result>& results, double top) {
  std::string svg;
  for (size_t i = 0; i < results.size(); ++i) {
    const double y = top + kLegendLine * static_cast<double>(i + 1);
    svg += fmt::format(
        "<line x1=\"{0:.0f}\" y1=\"{1:.0f}\" x2=\"{2:.0f}\" y2=\"{1:.0f}\" stroke=\"{3}\" "
        "stroke-width=\"3\"/><text x=\"{4:.0f}\" y=\"{5:.0f}\">{6}</text>\n",
        kLeft, y, kLeft + 24, kColours[i % kColours.size()], kLeft + 32, y + 4,
        Escape(results[i].label));
  }
  return svg;
}

}  // namespace

std::string PlotSvg(const std::vector<Result>& results) {
  std::string body;
  double top = 0;
  for (const Metric& metric : kMetrics) {
    const bool is_there = std::any_of(results.begin(), results.end(), [&](const Result& result) {
      return (result.*metric.histogram).count() > 0;
    });
    if (!is_there) continue;
    const Axes axes = FitAxes(results, metric, top);
    body += DrawGrid(axes, metric);
    for (size_t i = 0; i < results.size(); ++i) {
      body += DrawCurve(axes, results[i].*metric.histogram, kColours[i % kColours.size()]);
    }
    top += kPanelHeight;
  }
  body += DrawLegend(results, top);
  const double height = top + kLegendLine * static_cast<double>(results.size() + 1);
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
      "viewBox=\"0 0 {0:.0f} {1:.0f}\" font-family=\"sans-serif\" font-size=\"12\">\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n{2}</svg>\n",
      kPanelWidth, height, body);
}

std::string PlotHtml(const std::vector<Result>& results) {
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
      "<title>Load tests compared</title></head>\n"
      "<body style=\"font-family: sans-serif\">\n<pre>\n{}</pre>\n{}</body></html>\n",
      Escape(FormatComparison(results)), PlotSvg(results));
}

absl::Status WritePlot(const std::vector<Result>& results, const std::string& path) {
  const bool is_svg = path.ends_with(".svg");
  if (!is_svg && !path.ends_with(".html")) {
    return absl::InvalidArgumentError(fmt::format("{}: expected a name in .svg or .html", path));
  }
  std::ofstream file(path);
  file << (is_svg ? PlotSvg(results) : PlotHtml(results));
  file.close();
  if (!file) return absl::InvalidArgumentError(fmt::format("cannot write {}", path));
  return absl::OkStatus();
}

}  // namespace beamline::loadtest
