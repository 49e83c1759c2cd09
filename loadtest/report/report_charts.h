// The charts of a run's report page.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "loadtest/report/chart.h"
#include "loadtest/report/report.h"

namespace beamline::loadtest {

// An empty chart of latency by percentile.
Chart SpectrumChart(const std::string& title);
// Points (share, milliseconds) of such a chart, up to the largest value. n values distinguish
// shares up to 1 - 1/n.
std::vector<std::pair<double, double>> PercentilePoints(const Histogram& histogram);

// A chart by percentile for each measured latency: of all requests, and of each class if there are
// several.
std::vector<Chart> SpectrumCharts(const RunReport& report);
// Rates, latencies and tokens over the run.
std::vector<Chart> TimeCharts(const RunReport& report);
// Charts of the server's metrics; empty without --metrics.
std::vector<Chart> ServerCharts(const RunReport& report);

}  // namespace beamline::loadtest
