// The lines of a chart, shared by figures on pages and pictures.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

#include "loadtest/report/chart.h"

namespace beamline::loadtest {

// Okabe and Ito's colours, which colour-blind readers can tell apart, without their yellow, which
// is too light for lines. kDark has lighter ones for dark pages. More than 7 series are told apart
// by dashes.
inline constexpr size_t kNumColours = 7;
using Colours = std::array<std::string_view, kNumColours>;
inline constexpr Colours kLight = {"#0072b2", "#d55e00", "#009e73", "#b8568c",
                                   "#b97a00", "#3a9bd9", "#444"};
inline constexpr Colours kDark = {"#4fa8e8", "#ff8f52", "#2fcb9b", "#ec9dca",
                                  "#f0bc4a", "#a5d8ff", "#ddd"};

// Line styles for pages and pictures.
inline constexpr std::string_view kLineStyle =
    R"(.x{text-anchor:middle}.y,.end{text-anchor:end}
.line{fill:none;stroke-width:2.4;stroke-linejoin:round;stroke-linecap:round}
circle{fill:none;stroke-width:2}
.d1{stroke-dasharray:8 5}.d2{stroke-dasharray:2 5}.d3{stroke-dasharray:10 4 2 4}
.mark{fill:none;stroke-width:2.4}.m1{stroke-dasharray:2 4}
.limit,.reference{stroke-width:1.6;stroke-dasharray:6 4}
)";

// The size of the drawing in SVG units; pages and pictures scale it.
inline constexpr double kChartWidth = 600;
inline constexpr double kChartHeight = 330;

// Whether there is a point to draw.
bool HasPoint(const Chart& chart, const ChartSeries& series);
bool HasPoint(const Chart& chart);

// The CSS classes of the series with this index.
std::string LineClass(const ChartSeries& series, size_t index);

// Axes and lines: the content of an <svg> of kChartWidth x kChartHeight.
std::string DrawLines(const Chart& chart);

}  // namespace beamline::loadtest
