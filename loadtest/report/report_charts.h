// The charts of pages about runs.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "loadtest/report/chart.h"
#include "loadtest/report/report.h"

namespace beamline::loadtest {

// An empty chart of latencies by percentile.
Chart SpectrumChart(const std::string& title);
// Its points, (share, milliseconds), up to the largest value: the shares that n values can tell
// apart end at 1 - 1/n.
std::vector<std::pair<double, double>> PercentilePoints(const Histogram& histogram);

// A chart for each latency that was measured, by percentile: of all requests and, where there are
// several classes, of each class.
std::vector<Chart> SpectrumCharts(const RunReport& report);
// Rates, latencies and tokens over the run.
std::vector<Chart> TimeCharts(const RunReport& report);
// What the server's metrics said; none without --metrics.
std::vector<Chart> ServerCharts(const RunReport& report);

}  // namespace beamline::loadtest
