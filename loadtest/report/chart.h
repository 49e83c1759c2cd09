// Line charts as SVG inside a page, drawn with the classes of the page's style.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace beamline::loadtest {

enum class SeriesStyle {
  kData,
  kLimit,      // what must not be passed
  kReference,  // what the data is held against
};

struct ChartSeries {
  std::string name;  // in the legend
  // (x, y), x ascending; a y that is not finite is a gap.
  std::vector<std::pair<double, double>> points;
  SeriesStyle style = SeriesStyle::kData;
};

// A part of the x axis that is shaded, and is in the legend.
struct ChartBand {
  std::string name;
  double begin = 0;
  double end = 0;
};

// A place on the x axis with a line of its own, which is in the legend; at most kMostMarks.
struct ChartMark {
  std::string name;
  double x = 0;
};
inline constexpr size_t kMostMarks = 2;

enum class XAxis {
  kLinear,      // from 0
  kPercentile,  // of shares from 0 to below 1: logarithmic towards 1, so that the tail has room
};

struct Chart {
  std::string title;
  std::string x_title;
  std::string y_title;  // with its unit
  XAxis x_axis = XAxis::kLinear;
  bool log_y = false;  // else linear from 0; values <= 0 are gaps
  double x_end = 0;    // the x axis reaches here, or to the last point
  std::vector<ChartSeries> series;
  std::vector<ChartBand> bands;
  std::vector<ChartMark> marks;
  bool dots = false;  // at each point, where these are few
};

// A <figure> with title, legend, and labelled axes; empty when no series has a point. Series
// without one are left out; the others keep the colours of their places.
std::string DrawChart(const Chart& chart);

// The figures of several charts, side by side where the screen has room: in rows of three if that
// leaves no place empty and two would.
std::string DrawCharts(const std::vector<Chart>& charts);

// What the figures need of a page's style sheet.
std::string ChartStyle();

}  // namespace beamline::loadtest
