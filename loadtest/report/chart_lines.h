// The lines of a chart: what its figure on a page and a picture of it have in common.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

#include "loadtest/report/chart.h"

namespace beamline::loadtest {

// Okabe and Ito's colours, which colour-blind readers can tell apart, but for their yellow, which
// is too light for a line; and lighter ones for a dark page. Further series have dashes.
inline constexpr size_t kNumColours = 7;
using Colours = std::array<std::string_view, kNumColours>;
inline constexpr Colours kLight = {"#0072b2", "#d55e00", "#009e73", "#b8568c",
                                   "#b97a00", "#3a9bd9", "#444"};
inline constexpr Colours kDark = {"#4fa8e8", "#ff8f52", "#2fcb9b", "#ec9dca",
                                  "#f0bc4a", "#a5d8ff", "#ddd"};

// What lines have on any page, and in pictures.
inline constexpr std::string_view kLineStyle =
    R"(.x{text-anchor:middle}.y,.end{text-anchor:end}
.line{fill:none;stroke-width:2.4;stroke-linejoin:round;stroke-linecap:round}
circle{fill:none;stroke-width:2}
.d1{stroke-dasharray:8 5}.d2{stroke-dasharray:2 5}.d3{stroke-dasharray:10 4 2 4}
.mark{fill:none;stroke-width:2.4}.m1{stroke-dasharray:2 4}
.limit,.reference{stroke-width:1.6;stroke-dasharray:6 4}
)";

// Of the drawing, in its own units, which pages and pictures scale.
inline constexpr double kChartWidth = 600;
inline constexpr double kChartHeight = 330;

// Whether there is something to draw.
bool HasPoint(const Chart& chart, const ChartSeries& series);
bool HasPoint(const Chart& chart);

// The classes of the line of the series at this place.
std::string LineClass(const ChartSeries& series, size_t index);

// Axes and lines: what is inside an <svg> of that size.
std::string DrawLines(const Chart& chart);

}  // namespace beamline::loadtest
