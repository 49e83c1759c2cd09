// Latency by percentile, as a picture that needs nothing from elsewhere.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "loadtest/report/result_json.h"

namespace beamline::loadtest {

// One panel for each latency that the results have, one curve a result, below a legend; as in
// report_charts.h, x is logarithmic towards 100%, so that the tail gets as much room as the middle.
std::string PlotSvg(const std::vector<Result>& results);

// The comparison's table above a chart for each latency, as a page like that of a run
// (report_page.h).
std::string PlotHtml(const std::vector<Result>& results);

// Whether WritePlot can write there: a name in ".svg" or ".html".
absl::Status CheckPlotPath(const std::string& path);
// A picture or a page by the path's ending.
absl::Status WritePlot(const std::vector<Result>& results, const std::string& path);

}  // namespace beamline::loadtest
