// Plots latency by percentile as a standalone file.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "loadtest/report/result_json.h"

namespace beamline::loadtest {

// One panel per latency that the results have, one curve per result, below a legend. As in
// report_charts.h, x is logarithmic towards 100%, to give the tail as much room as the middle.
std::string PlotSvg(const std::vector<Result>& results);

// The comparison table above a chart per latency, as a page like that of a run (report_page.h).
std::string PlotHtml(const std::vector<Result>& results);

// Checks that WritePlot can write there: the name ends with ".svg" or ".html".
absl::Status CheckPlotPath(const std::string& path);
// Writes a picture or a page, depending on the file name's ending.
absl::Status WritePlot(const std::vector<Result>& results, const std::string& path);

}  // namespace beamline::loadtest
