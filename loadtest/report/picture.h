// Charts as a picture of its own, for what is no page.
#pragma once

#include <string>
#include <vector>

#include "loadtest/report/chart.h"

namespace beamline::loadtest {

// An SVG of the charts that have a point, side by side on white below one legend of their series,
// which are the same in all.
std::string DrawPicture(const std::vector<Chart>& charts);

}  // namespace beamline::loadtest
