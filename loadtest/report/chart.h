// SVG line charts for pages; they use the classes of the page's style sheet.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace beamline::loadtest {

enum class SeriesStyle {
  kData,
  kLimit,      // an upper limit
  kReference,  // a reference for the data
};

struct ChartSeries {
  std::string name;  // shown in the legend
  // (x, y) with ascending x; a y that is not finite is a gap.
  std::vector<std::pair<double, double>> points;
  SeriesStyle style = SeriesStyle::kData;
};

// A shaded part of the x axis; listed in the legend.
struct ChartBand {
  std::string name;
  double begin = 0;
  double end = 0;
};

// A vertical line at a place on the x axis; listed in the legend. At most kMostMarks per chart.
struct ChartMark {
  std::string name;
  double x = 0;
};
inline constexpr size_t kMostMarks = 2;

enum class XAxis {
  kLinear,      // starts at 0
  kPercentile,  // shares from 0 to below 1; logarithmic towards 1, to give the tail room
};

struct Chart {
  std::string title;
  std::string x_title;
  std::string y_title;  // including its unit
  XAxis x_axis = XAxis::kLinear;
  bool log_y = false;  // else linear, starting at 0; values <= 0 are gaps
  double x_end = 0;    // the x axis ends here or at the last point, whichever is larger
  std::vector<ChartSeries> series;
  std::vector<ChartBand> bands;
  std::vector<ChartMark> marks;
  bool dots = false;  // draws a dot at each point, for charts with few points
};

// A <figure> with title, legend and labelled axes; empty if no series has a point. Series without a
// point are left out; the others keep their colours.
std::string DrawChart(const Chart& chart);

// The figures of several charts, in rows of two. Rows of three are used if they fill the grid and
// rows of two would not.
std::string DrawCharts(const std::vector<Chart>& charts);

// The charts' part of a page's style sheet.
std::string ChartStyle();

}  // namespace beamline::loadtest
