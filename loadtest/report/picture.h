// Draws charts as a standalone SVG.
#pragma once

#include <string>
#include <vector>

#include "loadtest/report/chart.h"

namespace beamline::loadtest {

// An SVG of the charts that have a point, side by side on white, below one legend. All charts have
// the same series.
std::string DrawPicture(const std::vector<Chart>& charts);

}  // namespace beamline::loadtest
