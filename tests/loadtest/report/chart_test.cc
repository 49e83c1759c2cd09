#include "loadtest/report/chart.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "loadtest/report/markup.h"

namespace beamline::loadtest::chart_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr double kGap = std::numeric_limits<double>::quiet_NaN();

Chart MakeChart(std::vector<ChartSeries> series) {
  return {.title = "Rate", .x_title = "seconds", .y_title = "requests/s", .series = series};
}

TEST(ChartTest, AxesAndSeriesAreLabelled) {
  Chart chart = MakeChart({{"sent <1>", {{0, 10}, {5, 90}, {10, 40}}}, {"ok", {{0, 1}, {10, 2}}}});
  chart.bands = {{"warm-up", 0, 2}};
  const std::string html = DrawChart(chart);
  for (const char* part :
       {"<figcaption>Rate</figcaption>", ">requests/s</text>", ">seconds</text>",
        "</svg>sent &lt;1&gt;</li>", "</svg>ok</li>", "</svg>warm-up</li>",
        "data-series=\"sent &lt;1&gt;\"", "<title>ok</title>", ">0</text>", ">100</text>",
        ">10</text>", "class=\"line c0\"", "class=\"line c1\"", "class=\"band\""}) {
    EXPECT_THAT(html, HasSubstr(part));
  }
}

TEST(ChartTest, WhatHasNoPointIsNotDrawn) {
  EXPECT_EQ(DrawChart(MakeChart({})), "");
  EXPECT_EQ(DrawChart(MakeChart({{"none", {}}, {"gaps", {{1, kGap}}}})), "");
  Chart chart = MakeChart({{"none", {{1, kGap}}}, {"some", {{1, 0}, {2, 4}}}});
  EXPECT_THAT(DrawChart(chart), Not(HasSubstr("data-series=\"none\"")));
  EXPECT_THAT(DrawChart(chart), Not(HasSubstr("</svg>none")));
  EXPECT_THAT(DrawChart(chart), HasSubstr("class=\"line c1\""));  // the colour of its place
  chart.log_y = true;                                             // where 0 has no place
  EXPECT_THAT(DrawChart(chart), HasSubstr("<circle"));
  chart.series = {{"zero", {{1, 0}}}};
  EXPECT_EQ(DrawChart(chart), "");
}

TEST(ChartTest, GapsBreakTheLineAndOnePointIsADot) {
  const std::string html =
      DrawChart(MakeChart({{"a", {{0, 1}, {1, 1}, {2, kGap}, {3, 2}, {4, kGap}, {5, 1}, {6, 2}}}}));
  size_t moves = 0, dots = 0;
  const size_t begin = html.find("data-series");
  for (size_t i = begin; i < html.size(); ++i) {
    moves += html[i] == 'M' ? 1 : 0;
    dots += html.compare(i, 7, "<circle") == 0 ? 1 : 0;
  }
  EXPECT_EQ(moves, 3U);
  EXPECT_EQ(dots, 1U);
}

TEST(ChartTest, AnyRangeHasFiniteLabels) {
  for (const double low : {1e-9, 1e-3, 1.0, 123.0, 1e9}) {
    for (const double factor : {1.0, 1.001, 7.0, 1e3, 1e12}) {
      for (const bool log_y : {false, true}) {
        for (const XAxis x_axis : {XAxis::kLinear, XAxis::kPercentile}) {
          Chart chart = MakeChart({{"a", {{0, low}, {0.99, low * factor}}}});
          chart.log_y = log_y;
          chart.x_axis = x_axis;
          const std::string html = DrawChart(chart);
          EXPECT_THAT(html, Not(HasSubstr("nan")));
          EXPECT_THAT(html, Not(HasSubstr("inf")));
          size_t labels = 0;
          for (size_t i = 0; i < html.size(); ++i) {
            labels += html.compare(i, 16, "<text class=\"y\" ") == 0 ? 1 : 0;
          }
          EXPECT_GE(labels, 1U) << low << " " << factor;
          EXPECT_LE(labels, 24U) << low << " " << factor;
        }
      }
    }
  }
}

TEST(ChartTest, LimitsAndMarksAreDrawnApartFromTheData) {
  Chart chart = MakeChart({{"p50", {{1, 10}, {2, 20}, {4, 30}}}});
  chart.dots = true;
  chart.series.push_back(
      {.name = "limit", .points = {{0, 25}, {4, 25}}, .style = SeriesStyle::kLimit});
  chart.series.push_back(
      {.name = "ideal", .points = {{0, 0}, {4, 40}}, .style = SeriesStyle::kReference});
  chart.marks = {{"knee", 2}, {"highest <1>", 5}};
  const std::string html = DrawChart(chart);
  for (const char* part : {"class=\"line limit\" data-series=\"limit\"",
                           "class=\"line reference\" data-series=\"ideal\"", "class=\"mark m0\"",
                           "class=\"mark m1\"", "</svg>knee</li>", "</svg>highest &lt;1&gt;</li>",
                           "</svg>limit</li>", ">5</text>"}) {  // the axis reaches the mark
    EXPECT_THAT(html, HasSubstr(part));
  }
  size_t dots = 0;
  for (size_t i = 0; i < html.size(); ++i) dots += html.compare(i, 7, "<circle") == 0 ? 1 : 0;
  EXPECT_EQ(dots, 3U);  // of the data alone
}

TEST(ChartTest, RowsOfChartsHaveNoEmptyPlace) {
  const Chart chart = MakeChart({{"a", {{0, 1}, {1, 2}}}});
  EXPECT_EQ(DrawCharts({MakeChart({})}), "");
  EXPECT_THAT(DrawCharts({chart, chart, MakeChart({})}), HasSubstr("<div class=\"grid2\">"));
  EXPECT_THAT(DrawCharts({chart, chart, chart}), HasSubstr("<div class=\"grid3\">"));
}

TEST(ChartTest, MoreSeriesThanColoursHaveDashes) {
  std::vector<ChartSeries> series;
  for (int i = 0; i < 9; ++i) series.push_back({"s" + std::to_string(i), {{0, 1}, {1, 2}}});
  EXPECT_THAT(DrawChart(MakeChart(series)), HasSubstr("class=\"line c1 d1\""));
}

TEST(MarkupTest, AnyTextIsShownAsItIs) {
  EXPECT_EQ(Escape("<a href=\"x\" b='y'>&amp;"),
            "&lt;a href=&quot;x&quot; b=&#39;y&#39;&gt;&amp;amp;");
  EXPECT_EQ(Escape("a\x01\xFF\n\u202Eb\uFFFE"), "a \uFFFD &lt;U+202E&gt;b\uFFFD");
  EXPECT_EQ(EscapeLines("a: <\n\tb\n"), "a: &lt;\n b\n");
  EXPECT_LT(Escape(std::string(1 << 20, '<')).size(), 20'000U);
  EXPECT_LT(EscapeLines(std::string(1 << 20, '\n')).size(), 100'000U);
}

}  // namespace
}  // namespace beamline::loadtest::chart_test
