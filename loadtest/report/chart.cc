#include "loadtest/report/chart.h"

#include "fmt/format.h"
#include "loadtest/report/chart_lines.h"
#include "loadtest/report/markup.h"

namespace beamline::loadtest {
namespace {

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
  if (!HasPoint(chart)) return "";
  const std::string title = Escape(chart.title);
  return fmt::format(
      "<figure>\n<figcaption>{}</figcaption>\n{}<svg class=\"chart\" role=\"img\" "
      "aria-label=\"{}: {} by {}\" viewBox=\"0 0 {} {}\">\n{}</svg>\n</figure>\n",
      title, DrawLegend(chart), title, Escape(chart.y_title), Escape(chart.x_title), kChartWidth,
      kChartHeight, DrawLines(chart));
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

std::string ChartStyle() {
  const auto variables = [](const Colours& colours) {
    std::string text;
    for (size_t i = 0; i < kNumColours; ++i) text += fmt::format("--c{}:{};", i, colours[i]);
    return text;
  };
  std::string style = fmt::format(
      ":root{{{}--grid:#e3e6ea;--axis:#8b95a1;--band:#eceff3}}\n"
      "@media "
      "(prefers-color-scheme:dark){{:root{{{}--grid:#2b313a;--axis:#6d7784;--band:#242a33}}}}\n",
      variables(kLight), variables(kDark));
  for (size_t i = 0; i < kNumColours; ++i) style += fmt::format(".c{0}{{stroke:var(--c{0})}}", i);
  return style + std::string(kLineStyle) + R"(figure{margin:0;min-width:0}
figcaption{font-weight:600}
.legend{display:flex;flex-wrap:wrap;gap:2px 16px;list-style:none;margin:6px 0 2px;padding:0;font-size:13px;color:var(--soft)}
.legend li{display:flex;align-items:center;gap:6px;overflow-wrap:anywhere}
.sample{width:30px;height:10px;flex:none}
.chart{display:block;width:100%;height:auto}
.chart text{font-size:13px;fill:var(--soft)}
.grid{stroke:var(--grid);fill:none}.axis{stroke:var(--axis);fill:none}.band{fill:var(--band)}
.limit{stroke:var(--bad)}.mark,.reference{stroke:var(--axis)}
.grid2,.grid3{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,520px),1fr));gap:14px}
@media (min-width:1100px){.grid3{grid-template-columns:repeat(3,1fr)}.grid3 .chart text{font-size:19px}.grid3 .line{stroke-width:3.2}}
@media (max-width:520px){.chart text{font-size:20px}.line{stroke-width:3.4}}
)";
}

}  // namespace beamline::loadtest
