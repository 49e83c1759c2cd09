#include "loadtest/report/chart.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "fmt/format.h"
#include "loadtest/report/markup.h"

namespace beamline::loadtest {
namespace {

// In the SVG's own units, which the page scales. The margins hold labels in the larger of the two
// sizes of ChartStyle, that of narrow screens.
constexpr double kWidth = 600;
constexpr double kHeight = 330;
constexpr double kLeft = 80;
constexpr double kRight = 566;
constexpr double kTop = 40;
constexpr double kBottom = 266;
constexpr int kMostLabels = 8;
// Of a percentile axis, from where on the y axis shows every value.
constexpr double kLeastShare = 0.1;
// Of a log axis; smaller values lie on its end.
constexpr double kMostRange = 1e4;

// Colours that ChartStyle has; further series have dashes.
constexpr size_t kNumColours = 7;
constexpr size_t kNumDashes = 4;

std::string LineClass(const ChartSeries& series, size_t index) {
  if (series.style == SeriesStyle::kLimit) return "line limit";
  if (series.style == SeriesStyle::kReference) return "line reference";
  const size_t dash = index / kNumColours % kNumDashes;
  return fmt::format("line c{}{}", index % kNumColours, dash > 0 ? fmt::format(" d{}", dash) : "");
}

// 1, 2 and 5 times the powers of ten; for index 0, 1, 2: 1, 2, 5; -1: 0.5.
double NiceStep(int index) {
  constexpr std::array<double, 3> kSteps = {1, 2, 5};
  const int decade = static_cast<int>(std::floor(index / 3.0));
  return kSteps[static_cast<size_t>(index - 3 * decade)] * std::pow(10, decade);
}

// The least step with which `range` has at most `most` of them.
double StepFor(double range, int most) {
  int index = static_cast<int>(std::floor(std::log10(range / most))) * 3;
  while (NiceStep(index) * most < range * (1 - 1e-9)) ++index;
  return NiceStep(index);
}

struct Tick {
  double position = 0;  // in the SVG's units
  std::string label;
};

// One axis: the values that it shows, and where.
struct Axis {
  bool log = false;
  double low = 0;
  double high = 1;
  double begin = 0;  // in the SVG's units
  double end = 1;

  double At(double value) const {
    const double share =
        log ? std::log(value / low) / std::log(high / low) : (value - low) / (high - low);
    return begin + std::clamp(share, 0.0, 1.0) * (end - begin);
  }
};

// Where a percentile stands on its axis: the number of nines.
double Nines(double share) { return -std::log10(1 - share); }

bool IsDrawn(const Chart& chart, double y) { return std::isfinite(y) && (!chart.log_y || y > 0); }

bool HasPoint(const Chart& chart, const ChartSeries& series) {
  return std::any_of(series.points.begin(), series.points.end(),
                     [&chart](const auto& point) { return IsDrawn(chart, point.second); });
}

Axis FitX(const Chart& chart) {
  Axis axis{.begin = kLeft, .end = kRight};
  double most = chart.x_end;
  for (const ChartSeries& series : chart.series) {
    if (!series.points.empty()) most = std::max(most, series.points.back().first);
  }
  for (const ChartBand& band : chart.bands) most = std::max(most, band.end);
  for (const ChartMark& mark : chart.marks) most = std::max(most, mark.x);
  axis.high = chart.x_axis == XAxis::kPercentile ? Nines(most) : most;
  axis.high = std::max(axis.high, chart.x_axis == XAxis::kPercentile ? 1.0 : 1e-3);
  return axis;
}

Axis FitY(const Chart& chart) {
  double low = std::numeric_limits<double>::infinity(), high = 0;
  for (const ChartSeries& series : chart.series) {
    for (const auto& [x, y] : series.points) {
      if (!IsDrawn(chart, y)) continue;
      high = std::max(high, y);
      // The few smallest values would make a log axis of empty decades.
      if (chart.x_axis == XAxis::kPercentile && x < kLeastShare) continue;
      low = std::min(low, y);
    }
  }
  Axis axis{.log = chart.log_y, .begin = kBottom, .end = kTop};
  if (!chart.log_y) {
    const double step = StepFor(high > 0 ? high : 1, kMostLabels - 2);
    axis.high = step * std::max(1.0, std::ceil(high / step - 1e-9));
    return axis;
  }
  low = std::clamp(low, high / kMostRange, high);
  int low_step = static_cast<int>(std::floor(std::log10(low))) * 3;
  while (NiceStep(low_step + 1) <= low) ++low_step;
  int high_step = low_step + 1;
  while (NiceStep(high_step) < high) ++high_step;
  axis.low = NiceStep(low_step);
  axis.high = NiceStep(high_step);
  return axis;
}

std::vector<Tick> XTicks(const Chart& chart, const Axis& axis) {
  std::vector<Tick> ticks;
  if (chart.x_axis == XAxis::kPercentile) {
    constexpr std::pair<double, const char*> kShares[] = {{0.5, "p50"},       {0.9, "p90"},
                                                          {0.99, "p99"},      {0.999, "p99.9"},
                                                          {0.9999, "p99.99"}, {0.99999, "p99.999"}};
    for (const auto& [share, label] : kShares) {
      if (Nines(share) <= axis.high + 1e-6) ticks.push_back({axis.At(Nines(share)), label});
    }
    return ticks;
  }
  const double step = StepFor(axis.high, kMostLabels - 2);
  for (int i = 0; i * step <= axis.high * (1 + 1e-9); ++i) {
    ticks.push_back({axis.At(i * step), fmt::format("{:g}", i * step)});
  }
  return ticks;
}

std::vector<Tick> YTicks(const Axis& axis) {
  std::vector<Tick> ticks;
  if (!axis.log) {
    const double step = StepFor(axis.high, kMostLabels - 2);
    for (int i = 0; i * step <= axis.high * (1 + 1e-9); ++i) {
      ticks.push_back({axis.At(i * step), fmt::format("{:g}", i * step)});
    }
    return ticks;
  }
  const int first = static_cast<int>(std::lround(std::floor(std::log10(axis.low) + 1e-9))) * 3;
  int count = 0;
  for (int i = first; NiceStep(i) <= axis.high * (1 + 1e-9); ++i) {
    count += NiceStep(i) >= axis.low * (1 - 1e-9) ? 1 : 0;
  }
  for (int i = first; NiceStep(i) <= axis.high * (1 + 1e-9); ++i) {
    if (NiceStep(i) < axis.low * (1 - 1e-9)) continue;
    if (count > kMostLabels && i % 3 != 0) continue;  // powers of ten alone
    ticks.push_back({axis.At(NiceStep(i)), fmt::format("{:g}", NiceStep(i))});
  }
  return ticks;
}

std::string DrawAxes(const Chart& chart, const Axis& x, const Axis& y) {
  std::string svg;
  for (const ChartBand& band : chart.bands) {
    svg +=
        fmt::format("<rect class=\"band\" x=\"{:.1f}\" y=\"{}\" width=\"{:.1f}\" height=\"{}\"/>\n",
                    x.At(band.begin), kTop, x.At(band.end) - x.At(band.begin), kBottom - kTop);
  }
  for (const Tick& tick : YTicks(y)) {
    svg += fmt::format(
        "<path class=\"grid\" d=\"M{} {:.1f}H{}\"/><text class=\"y\" x=\"{}\" y=\"{:.1f}\" "
        "dy=\"0.35em\">{}</text>\n",
        kLeft, tick.position, kRight, kLeft - 8, tick.position, tick.label);
  }
  for (const Tick& tick : XTicks(chart, x)) {
    svg += fmt::format(
        "<path class=\"grid\" d=\"M{:.1f} {}V{}\"/><text class=\"x\" x=\"{:.1f}\" y=\"{}\">{}"
        "</text>\n",
        tick.position, kTop, kBottom, tick.position, kBottom + 22, tick.label);
  }
  for (size_t i = 0; i < chart.marks.size(); ++i) {
    const double at = x.At(chart.marks[i].x);
    svg += fmt::format("<path class=\"mark m{}\" d=\"M{:.1f} {}V{}\"/>\n", i % kMostMarks, at, kTop,
                       kBottom);
  }
  svg += fmt::format("<path class=\"axis\" d=\"M{} {}V{}H{}\"/>\n", kLeft, kTop, kBottom, kRight);
  svg += fmt::format("<text class=\"title\" x=\"4\" y=\"22\">{}</text>\n", Escape(chart.y_title));
  svg += fmt::format("<text class=\"title end\" x=\"{}\" y=\"{}\">{}</text>\n", kRight, kHeight - 8,
                     Escape(chart.x_title));
  return svg;
}

// A line through the points between two gaps; a dot for one alone.
std::string DrawSeries(const Chart& chart, const ChartSeries& series, size_t index, const Axis& x,
                       const Axis& y) {
  std::string path, dots;
  size_t begin = 0;
  while (begin < series.points.size()) {
    size_t end = begin;
    while (end < series.points.size() && IsDrawn(chart, series.points[end].second)) ++end;
    for (size_t i = begin; i < end; ++i) {
      const double value = series.points[i].first;
      const double at = x.At(chart.x_axis == XAxis::kPercentile ? Nines(value) : value);
      const double height = y.At(series.points[i].second);
      path += fmt::format("{}{:.1f} {:.1f}", i == begin ? "M" : "L", at, height);
      if (end - begin == 1 || (chart.dots && series.style == SeriesStyle::kData)) {
        dots += fmt::format("<circle class=\"c{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.5\"/>",
                            index % kNumColours, at, height);
      }
    }
    begin = end + 1;
  }
  const std::string name = Escape(series.name);
  return fmt::format("<path class=\"{}\" data-series=\"{}\" d=\"{}\"><title>{}</title></path>{}\n",
                     LineClass(series, index), name, path, name, dots);
}

std::string DrawLegend(const Chart& chart) {
  std::string html = "<ul class=\"legend\">\n";
  for (size_t i = 0; i < chart.series.size(); ++i) {
    if (!HasPoint(chart, chart.series[i])) continue;
    html += fmt::format(
        "<li><svg class=\"sample\" viewBox=\"0 0 30 10\"><path class=\"{}\" d=\"M1 5H29\"/></svg>"
        "{}</li>\n",
        LineClass(chart.series[i], i), Escape(chart.series[i].name));
  }
  for (const ChartBand& band : chart.bands) {
    html += fmt::format(
        "<li><svg class=\"sample\" viewBox=\"0 0 30 10\"><rect class=\"band\" width=\"30\" "
        "height=\"10\"/></svg>{}</li>\n",
        Escape(band.name));
  }
  for (size_t i = 0; i < chart.marks.size(); ++i) {
    html += fmt::format(
        "<li><svg class=\"sample\" viewBox=\"0 0 30 10\"><path class=\"mark m{}\" "
        "d=\"M15 0V10\"/></svg>{}</li>\n",
        i % kMostMarks, Escape(chart.marks[i].name));
  }
  return html + "</ul>\n";
}

}  // namespace

std::string DrawChart(const Chart& chart) {
  if (std::none_of(chart.series.begin(), chart.series.end(),
                   [&chart](const ChartSeries& series) { return HasPoint(chart, series); })) {
    return "";
  }
  const Axis x = FitX(chart);
  const Axis y = FitY(chart);
  std::string lines;
  for (size_t i = 0; i < chart.series.size(); ++i) {
    if (HasPoint(chart, chart.series[i])) lines += DrawSeries(chart, chart.series[i], i, x, y);
  }
  const std::string title = Escape(chart.title);
  return fmt::format(
      "<figure>\n<figcaption>{}</figcaption>\n{}<svg class=\"chart\" role=\"img\" "
      "aria-label=\"{}: {} by {}\" viewBox=\"0 0 {} {}\">\n{}{}</svg>\n</figure>\n",
      title, DrawLegend(chart), title, Escape(chart.y_title), Escape(chart.x_title), kWidth,
      kHeight, DrawAxes(chart, x, y), lines);
}

std::string DrawCharts(const std::vector<Chart>& charts) {
  std::string figures;
  size_t count = 0;
  for (const Chart& chart : charts) {
    const std::string figure = DrawChart(chart);
    count += figure.empty() ? 0 : 1;
    figures += figure;
  }
  if (count == 0) return "";
  const bool in_threes = count % 2 == 1 && count % 3 == 0;
  return fmt::format("<div class=\"grid{}\">\n{}</div>\n", in_threes ? "3" : "2", figures);
}

// Okabe and Ito's colours, which colour-blind readers can tell apart, but for their yellow, which
// is too light for a line; and lighter ones for a dark page.
std::string_view ChartStyle() {
  return R"(:root{--c0:#0072b2;--c1:#d55e00;--c2:#009e73;--c3:#b8568c;--c4:#b97a00;--c5:#3a9bd9;--c6:#444;
--grid:#e3e6ea;--axis:#8b95a1;--band:#eceff3}
@media (prefers-color-scheme:dark){:root{--c0:#4fa8e8;--c1:#ff8f52;--c2:#2fcb9b;--c3:#ec9dca;--c4:#f0bc4a;--c5:#a5d8ff;--c6:#ddd;
--grid:#2b313a;--axis:#6d7784;--band:#242a33}}
figure{margin:0;min-width:0}
figcaption{font-weight:600}
.legend{display:flex;flex-wrap:wrap;gap:2px 16px;list-style:none;margin:6px 0 2px;padding:0;font-size:13px;color:var(--soft)}
.legend li{display:flex;align-items:center;gap:6px;overflow-wrap:anywhere}
.sample{width:30px;height:10px;flex:none}
.chart{display:block;width:100%;height:auto}
.chart text{font-size:13px;fill:var(--soft)}
.chart .x{text-anchor:middle}.chart .y,.chart .end{text-anchor:end}
.grid{stroke:var(--grid);fill:none}.axis{stroke:var(--axis);fill:none}.band{fill:var(--band)}
.line{fill:none;stroke-width:2.4;stroke-linejoin:round;stroke-linecap:round}
.c0{stroke:var(--c0)}.c1{stroke:var(--c1)}.c2{stroke:var(--c2)}.c3{stroke:var(--c3)}.c4{stroke:var(--c4)}.c5{stroke:var(--c5)}.c6{stroke:var(--c6)}
circle{fill:none;stroke-width:2}
.limit,.reference{stroke:var(--bad);stroke-width:1.6;stroke-dasharray:6 4}.reference{stroke:var(--axis)}
.mark{fill:none;stroke:var(--axis);stroke-width:2.4}.m1{stroke-dasharray:2 4}
.d1{stroke-dasharray:8 5}.d2{stroke-dasharray:2 5}.d3{stroke-dasharray:10 4 2 4}
.grid2,.grid3{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,520px),1fr));gap:14px}
@media (min-width:1100px){.grid3{grid-template-columns:repeat(3,1fr)}.grid3 .chart text{font-size:19px}.grid3 .line{stroke-width:3.2}}
@media (max-width:520px){.chart text{font-size:20px}.line{stroke-width:3.4}}
)";
}

}  // namespace beamline::loadtest
