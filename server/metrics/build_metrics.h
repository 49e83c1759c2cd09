// beamline_build_info: which build of the server this is, as labels.
#pragma once

#include <vector>

#include "prometheus/metric_family.h"

namespace beamline {

void CollectBuildMetrics(std::vector<prometheus::MetricFamily>& families);

}  // namespace beamline
