#include "loadtest/report/chart_lines.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "loadtest/report/markup.h"

namespace beamline::loadtest {
namespace {

// In SVG units. The margins fit labels in the larger font of ChartStyle, used on narrow screens.
constexpr double kLeft = 80;
constexpr double kRight = 566;
constexpr double kTop = 40;
constexpr double kBottom = 266;
constexpr int kMostLabels = 8;
// On a percentile axis, the y axis need not show values below this share.
constexpr double kLeastShare = 0.1;
// Largest ratio on a log axis; smaller values are drawn at its end.
constexpr double kMostRange = 1e4;

constexpr size_t kNumDashes = 4;  // a solid line and three dashed ones

// 1, 2 or 5 times a power of ten. Index 0, 1, 2: 1, 2, 5; index -1: 0.5.
double NiceStep(int index) {
  constexpr std::array<double, 3> kSteps = {1, 2, 5};
  const int decade = static_cast<int>(std::floor(index / 3.0));
  return kSteps[static_cast<size_t>(index - 3 * decade)] * std::pow(10, decade);
}

// The smallest step that divides `range` into at most `most` steps.
double StepFor(double range, int most) {
  int index = static_cast<int>(std::floor(std::log10(range / most))) * 3;
  while (NiceStep(index) * most < range * (1 - 1e-9)) ++index;
  return NiceStep(index);
}

struct Tick {
  double position = 0;  // in SVG units
  std::string label;
};

// One axis: its range of values and its position.
struct Axis {
  bool log = false;
  double low = 0;
  double high = 1;
  double begin = 0;  // in SVG units
  double end = 1;

  double At(double value) const {
    const double share =
        log ? std::log(value / low) / std::log(high / low) : (value - low) / (high - low);
    return begin + std::clamp(share, 0.0, 1.0) * (end - begin);
  }
};

// The position on a percentile axis: the number of nines.
double Nines(double share) { return -std::log10(1 - share); }

bool IsDrawn(const Chart& chart, double y) { return std::isfinite(y) && (!chart.log_y || y > 0); }

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
      // The few smallest values would add empty decades to a log axis.
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
    if (count > kMostLabels && i % 3 != 0) continue;  // only powers of ten
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
  svg += fmt::format("<text class=\"title end\" x=\"{}\" y=\"{}\">{}</text>\n", kRight,
                     kChartHeight - 8, Escape(chart.x_title));
  return svg;
}

// A line through the points between two gaps; a dot for a single point.
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

}  // namespace

bool HasPoint(const Chart& chart, const ChartSeries& series) {
  return std::any_of(series.points.begin(), series.points.end(),
                     [&chart](const auto& point) { return IsDrawn(chart, point.second); });
}

bool HasPoint(const Chart& chart) {
  return std::any_of(chart.series.begin(), chart.series.end(),
                     [&chart](const ChartSeries& series) { return HasPoint(chart, series); });
}

std::string LineClass(const ChartSeries& series, size_t index) {
  if (series.style == SeriesStyle::kLimit) return "line limit";
  if (series.style == SeriesStyle::kReference) return "line reference";
  const size_t dash = index / kNumColours % kNumDashes;
  return fmt::format("line c{}{}", index % kNumColours, dash > 0 ? fmt::format(" d{}", dash) : "");
}

std::string DrawLines(const Chart& chart) {
  const Axis x = FitX(chart);
  const Axis y = FitY(chart);
  std::string lines = DrawAxes(chart, x, y);
  for (size_t i = 0; i < chart.series.size(); ++i) {
    if (HasPoint(chart, chart.series[i])) lines += DrawSeries(chart, chart.series[i], i, x, y);
  }
  return lines;
}

}  // namespace beamline::loadtest
