// Latency by percentile, as a picture that needs nothing from elsewhere.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "loadtest/report/result_json.h"

namespace beamline::loadtest {

// One panel for each latency that the results have, one curve a result. Both axes are logarithmic:
// x is the share of requests that took longer, so the tail gets as much room as the middle.
std::string PlotSvg(const std::vector<Result>& results);

// The plot below the comparison table.
std::string PlotHtml(const std::vector<Result>& results);

// ".svg" or ".html" by the path's ending; InvalidArgument otherwise.
absl::Status WritePlot(const std::vector<Result>& results, const std::string& path);

}  // namespace beamline::loadtest
