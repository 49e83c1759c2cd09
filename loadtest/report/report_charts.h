// The charts of a run's page.
#pragma once

#include <vector>

#include "loadtest/report/chart.h"
#include "loadtest/report/report.h"

namespace beamline::loadtest {

// Latency by percentile: of all requests and, where there are several classes, by class.
std::vector<Chart> SpectrumCharts(const RunReport& report);
// Rates, latencies and tokens over the run.
std::vector<Chart> TimeCharts(const RunReport& report);
// What the server's metrics said; none without --metrics.
std::vector<Chart> ServerCharts(const RunReport& report);

}  // namespace beamline::loadtest
