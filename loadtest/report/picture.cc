#include "loadtest/report/picture.h"

#include <algorithm>

#include "fmt/format.h"
#include "loadtest/report/chart_lines.h"
#include "loadtest/report/markup.h"

namespace beamline::loadtest {
namespace {

// Widths of all panels together and of one panel at most, and sizes of the legend.
constexpr double kPictureWidth = 1200;
constexpr double kPanelWidth = 600;
constexpr double kPanelTitle = 26;
constexpr double kLegendLine = 24;
constexpr double kLegendSample = 30;
constexpr double kCharacterWidth = 8;  // an upper estimate for the font

// Draws rows of line samples and names; sets `height` to their height.
std::string DrawPictureLegend(const Chart& chart, double& height) {
  constexpr double kBegin = 24;
  std::string svg;
  double x = kBegin, y = kLegendLine;
  for (size_t i = 0; i < chart.series.size(); ++i) {
    const std::string& name = chart.series[i].name;
    const double width = kLegendSample + 40 + kCharacterWidth * static_cast<double>(name.size());
    if (x > kBegin && x + width > kPictureWidth) {
      x = kBegin;
      y += kLegendLine;
    }
    svg += fmt::format(
        "<path class=\"{}\" d=\"M{:.0f} {:.0f}h{}\"/><text class=\"name\" x=\"{:.0f}\" "
        "y=\"{:.0f}\" dy=\"0.35em\">{}</text>\n",
        LineClass(chart.series[i], i), x, y, kLegendSample, x + kLegendSample + 8, y, Escape(name));
    x += width;
  }
  height = y + kLegendLine;
  return svg;
}

// Uses literal colours, because some viewers do not know CSS variables.
std::string PictureStyle(size_t num_panels) {
  std::string style(kLineStyle);
  for (size_t i = 0; i < kNumColours; ++i) style += fmt::format(".c{}{{stroke:{}}}", i, kLight[i]);
  return style + fmt::format(
                     ".grid{{stroke:#e3e6ea;fill:none}}.axis{{stroke:#8b95a1;fill:none}}.band{{"
                     "fill:#eceff3}}"
                     ".mark,.reference{{stroke:#8b95a1}}.limit{{stroke:#b3261e}}"
                     "text{{font:{}px sans-serif;fill:#59636e}}.name{{font-size:14px;fill:#1b2026}}"
                     ".head{{font-weight:bold}}",
                     num_panels > 2 ? 19 : 13);
}

}  // namespace

std::string DrawPicture(const std::vector<Chart>& charts) {
  std::vector<const Chart*> panels;
  for (const Chart& chart : charts) {
    if (HasPoint(chart)) panels.push_back(&chart);
  }
  double top = 0;
  std::string body = charts.empty() ? "" : DrawPictureLegend(charts.front(), top);
  if (panels.empty()) {
    body +=
        fmt::format("<text class=\"name\" x=\"24\" y=\"{:.0f}\">There is nothing to draw.</text>\n",
                    top + kLegendLine);
  }
  const double width = std::min(
      kPanelWidth, kPictureWidth / std::max<double>(1, static_cast<double>(panels.size())));
  const double height = width * kChartHeight / kChartWidth;
  for (size_t i = 0; i < panels.size(); ++i) {
    const double left = width * static_cast<double>(i);
    body += fmt::format(
        "<text class=\"name head\" x=\"{:.0f}\" y=\"{:.0f}\">{}</text>\n<svg x=\"{:.0f}\" "
        "y=\"{:.0f}\" width=\"{:.0f}\" height=\"{:.0f}\" viewBox=\"0 0 {} {}\">\n{}</svg>\n",
        left + 24, top + kPanelTitle / 2, Escape(panels[i]->title), left, top + kPanelTitle, width,
        height, kChartWidth, kChartHeight, DrawLines(*panels[i]));
  }
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
      "viewBox=\"0 0 {0:.0f} {1:.0f}\">\n<style>{2}</style>\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n{3}</svg>\n",
      kPictureWidth, top + kPanelTitle + height, PictureStyle(panels.size()), body);
}

}  // namespace beamline::loadtest
